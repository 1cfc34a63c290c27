// SPDX-License-Identifier: Apache-2.0
// How the GPUs that the ranks of one host use reach each other and the host's memory, as a value.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planner/costs/cost_constants.hpp"
#include "topology/topology.hpp"

namespace coll {

/// A link in one direction. Ways that have it in common share it.
struct DeviceLink {
  std::string name;        ///< for a person: "PCI of GPU0, up"
  float gbytes_per_s = 0;  ///< that data gets of it; four bytes, as it is published
  friend bool operator==(const DeviceLink&, const DeviceLink&) = default;
};

/// The links that a message crosses, in order, by their places in DeviceWays::links.
using DeviceWay = std::vector<std::uint16_t>;

/// Ranks are many and GPUs are few, so ways are between GPUs, and ranks say which they use.
struct DeviceWays {
  std::vector<std::int32_t> gpu;  ///< of each of the host's ranks, in order; -1: it is not known
  std::vector<std::string> gpus;  ///< what a person calls each
  std::vector<DeviceLink> links;
  std::vector<DeviceWay> between;   ///< from each GPU to each, row by row; empty to itself
  std::vector<DeviceWay> up, down;  ///< of each GPU: to the host's memory, and from there
  friend bool operator==(const DeviceWays&, const DeviceWays&) = default;

  [[nodiscard]] const DeviceWay& way(std::size_t from, std::size_t to) const {
    return between[from * gpus.size() + to];
  }
  /// The narrowest link of a way; 0: it has none.
  [[nodiscard]] double gbytes_per_s(const DeviceWay& way) const;
  /// Whether its parts fit each other; what another rank wrote may be anything.
  [[nodiscard]] bool sensible() const;
  /// Whether it is about exactly `ranks` ranks, or none.
  [[nodiscard]] bool fits(std::size_t ranks) const { return gpu.empty() || gpu.size() == ranks; }
};

/// No host is near these; a larger one says nothing of its ways.
inline constexpr std::size_t kMostDevices = 64, kMostDeviceLinks = 4096, kMostOnWay = 255;

/// The ways on a machine's host between the GPUs that ranks use; kNoNode: a rank's is not known.
/// Empty if no rank's is.
DeviceWays device_ways(const Topology& topology, std::span<const NodeId> gpu_of_rank,
                       const LinkCost& costs);

}  // namespace coll
