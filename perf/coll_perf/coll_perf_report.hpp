// SPDX-License-Identifier: Apache-2.0
// Results for programs: JSON, CSV, the peers' CSV, and the chart.
#pragma once
#include <string>
#include <vector>

#include "coll_perf/coll_perf_table.hpp"
#include "coll_plot/plot_svg.hpp"
#include "gpu/gpu_ranks.hpp"

namespace perf {

/// Where the results come from.
struct Origin {
  int ranks = 1;
  int version = 0;                 ///< of the library: major * 10000 + minor * 100 + patch
  std::vector<std::string> hosts;  ///< by rank
  std::string transports;          ///< as asked for; empty: the library's choice
  std::string algorithm;
  int group = 1, inflight = 1;   ///< calls in a group, calls in flight
  bool coalesced = false;        ///< the group's calls are parts of one
  int ranks_per_process = 1;     ///< more: threads
  std::optional<GpuMap> gpus{};  ///< nothing: buffers lie in the host's memory
};

/// docs/performance.md names the members.
std::string to_json(const Origin& origin, const std::vector<Row>& rows);
/// One line per sample, a header first.
std::string to_csv(const Origin& origin, const std::vector<Row>& rows);

std::string peers_head();
std::string peers_line(const std::string& peer, const std::string& transport, int ranks,
                       const Point& point, const Sample& sample, const std::string& algorithm);

/// Bus bandwidth over size, a line per operation, type, reduction and placement.
Chart to_chart(const Origin& origin, const std::vector<Row>& rows);

}  // namespace perf
