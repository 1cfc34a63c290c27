// SPDX-License-Identifier: Apache-2.0
// From a machine to the ways between its GPUs.
#include "planner/networks/device_ways.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "planner/networks/host_ways.hpp"

namespace coll {
namespace {

/// Numbers the links as ways come to need them.
class LinkNumbers {
 public:
  explicit LinkNumbers(std::vector<DeviceLink>& links) : links_(links) {}

  DeviceWay way(const std::vector<HostLink>& over) {
    DeviceWay way;
    for (const HostLink& link : over) {
      const auto [at, fresh] = numbers_.emplace(std::tuple(link.from, link.to, link.name),
                                                static_cast<std::uint16_t>(links_.size()));
      if (fresh) links_.push_back({link.name, static_cast<float>(link.gbytes_per_s)});
      way.push_back(at->second);
    }
    return way;
  }

 private:
  std::vector<DeviceLink>& links_;
  std::map<std::tuple<NodeId, NodeId, std::string>, std::uint16_t> numbers_;
};

}  // namespace

double DeviceWays::gbytes_per_s(const DeviceWay& way) const {
  float narrowest = 0;
  for (const std::uint16_t link : way) {
    const float rate = links[link].gbytes_per_s;
    narrowest = narrowest > 0 ? std::min(narrowest, rate) : rate;
  }
  return narrowest;
}

bool DeviceWays::sensible() const {
  const auto count = static_cast<std::int32_t>(gpus.size());
  const auto known = [&](std::int32_t each) { return each >= -1 && each < count; };
  const auto moves = [](const DeviceLink& link) {
    return link.gbytes_per_s > 0 && std::isfinite(link.gbytes_per_s);
  };
  const auto leads = [&](const DeviceWay& way) {
    return std::ranges::all_of(way, [&](std::uint16_t link) { return link < links.size(); });
  };
  const auto exists = [&](const DeviceWay& way) {
    return !way.empty() && way.size() <= kMostOnWay && leads(way);
  };
  if (gpus.size() > kMostDevices || links.size() > kMostDeviceLinks ||
      gpus.empty() != gpu.empty() || between.size() != gpus.size() * gpus.size() ||
      up.size() != gpus.size() || down.size() != gpus.size() || !std::ranges::all_of(gpu, known) ||
      !std::ranges::all_of(links, moves) || !std::ranges::all_of(up, exists) ||
      !std::ranges::all_of(down, exists)) {
    return false;
  }
  for (std::size_t from = 0; from < gpus.size(); ++from) {
    for (std::size_t to = 0; to < gpus.size(); ++to) {
      if (from == to ? !way(from, to).empty() : !exists(way(from, to))) return false;
    }
  }
  return true;
}

DeviceWays device_ways(const Topology& topology, std::span<const NodeId> gpu_of_rank,
                       const LinkCost& costs) {
  DeviceWays ways;
  std::vector<NodeId> gpus;
  for (const NodeId gpu : gpu_of_rank) {
    const auto known = std::ranges::find(gpus, gpu);
    ways.gpu.push_back(gpu == kNoNode ? -1 : static_cast<std::int32_t>(known - gpus.begin()));
    if (gpu != kNoNode && known == gpus.end()) gpus.push_back(gpu);
  }
  if (gpus.empty() || gpus.size() > kMostDevices) return {};
  HostWays host_ways(topology, costs);
  LinkNumbers numbers(ways.links);
  const NodeId host = topology.above(gpus.front(), NodeKind::host);
  for (const NodeId from : gpus) {
    ways.gpus.push_back(host_ways.name(from));
    for (const NodeId to : gpus) {
      ways.between.push_back(from == to ? DeviceWay{}
                                        : numbers.way(host_ways.between_gpus(from, to)));
    }
    ways.up.push_back(numbers.way(host_ways.through_pci(from, host)));
    ways.down.push_back(numbers.way(host_ways.through_pci(host, from)));
  }
  return ways.sensible() ? ways : DeviceWays{};
}

}  // namespace coll
