// SPDX-License-Identifier: Apache-2.0
// Hosts with GPUs, and the ways between those that ranks use.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "planner/networks/device_ways.hpp"
#include "schedule/simulate/network.hpp"
#include "topology/read/read_topology.hpp"
#include "worlds.hpp"

namespace coll {

inline constexpr const char* kSwitched =
    "package:2 gpu:8 nvlink:switchx18@25GB nic:8@400G pcie:5x16 pciswitch:4";
inline constexpr const char* kOnPci = "gpu:4 pcie:4x16";
inline constexpr const char* kBridged = "package:2 gpu:4 nvlink:pairsx4@25GB pcie:4x16";
inline constexpr const char* kMeshed = "gpu:8 xgmi:all@64GB pcie:5x16";

inline Topology host_topology(const std::string& what) {
  const Result<Topology> read = read_topology_file(what);
  EXPECT_TRUE(read.ok()) << read.status().text();
  return read.ok() ? *read : Topology{};
}

/// Of ranks on the GPUs of one host with these numbers.
inline DeviceWays ways_of(const Topology& topology, const std::vector<std::size_t>& numbers) {
  const std::vector<NodeId> gpus =
      topology.parts(topology.all(NodeKind::host).front(), NodeKind::gpu);
  std::vector<NodeId> of_rank;
  for (const std::size_t number : numbers) of_rank.push_back(gpus.at(number));
  return device_ways(topology, of_rank, usual_costs().link);
}

inline std::vector<std::size_t> first_numbers(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

inline double narrowest(const Network& network, const Route& route) {
  double rate = std::numeric_limits<double>::infinity();
  for (const std::uint32_t link : route.links)
    rate = std::min(rate, 1e-3 / network.links[link].us_per_byte);
  return rate;
}

}  // namespace coll
