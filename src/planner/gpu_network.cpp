// SPDX-License-Identifier: Apache-2.0
// The network between GPUs of ranks that have joined.
#include "planner/gpu_network.hpp"

#include <string>

namespace coll {

Network gpu_network(const Layout& layout, const CostConstants& costs) {
  constexpr double kGigabyte = 1e-3;  // us per byte at 1 GB/s
  const LinkCost& link = costs.link;
  const double inside = kGigabyte / (link.nvlink_gbytes_per_s * link.nvlink_yield);
  const double within = kGigabyte / link.within_gpu_gbytes_per_s;
  Network network;
  network.threads = false;
  network.step_us = costs.gpu.stream_step_us;
  network.copy_us_per_byte = network.reduce_us_per_byte = within;
  const auto ranks = static_cast<std::uint32_t>(layout.ranks());
  for (const char* const way : {"out of rank ", "into rank "})
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      network.links.push_back({way + std::to_string(rank), inside});
  Route route;
  route.alpha_us = costs.gpu.stream_alpha_us;
  Route between = route;
  between.alpha_us += costs.network.alpha_us;
  between.send_us_per_byte = costs.network.send_us_per_byte;
  between.receive_us_per_byte = costs.network.receive_us_per_byte;
  network.route = [hosts = layout.host, route, between, ranks](Rank source, Rank target) {
    const auto host = [&](Rank rank) { return hosts[static_cast<std::size_t>(rank)]; };
    Route way = host(source) == host(target) ? route : between;
    way.links = {static_cast<std::uint32_t>(source), ranks + static_cast<std::uint32_t>(target)};
    return way;
  };
  return network;
}

}  // namespace coll
