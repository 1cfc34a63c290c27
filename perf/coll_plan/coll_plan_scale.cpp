// SPDX-License-Identifier: Apache-2.0
// Times of a call over the number of ranks, on clusters of equal hosts.
#include "coll_plan/coll_plan_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "coll_perf/coll_perf_table.hpp"
#include "coll_plan/coll_plan_words.hpp"
#include "coll_plot/plot_svg.hpp"
#include "planner/networks/regular_cluster.hpp"
#include "topology/read/read_topology.hpp"

namespace perf {
namespace {

using namespace coll;
using Json = nlohmann::ordered_json;

constexpr Rank kMostRanks = 1 << 20;

/// us[algorithm][ranks], of one size.
using Curves = std::map<std::string_view, std::map<Rank, Prediction>>;

/// The fastest algorithm for each number of ranks.
std::map<Rank, std::string_view> best_of(const Curves& curves) {
  std::map<Rank, std::string_view> best;
  for (const auto& [algorithm, points] : curves) {
    for (const auto& [ranks, prediction] : points) {
      const auto [at, fresh] = best.emplace(ranks, algorithm);
      if (!fresh && prediction.us < curves.at(at->second).at(ranks).us) at->second = algorithm;
    }
  }
  return best;
}

/// The curves of the algorithms that were asked for.
Curves curves_asked_for(const RegularCluster& cluster, Collective collective, double bytes,
                        const ScaleOptions& options) {
  Curves curves;
  for (const std::string& name : options.algorithms) {
    const Algorithm& algorithm = *find_algorithm(name);
    for (Rank hosts = 1; hosts * cluster.per_host <= options.most_ranks; hosts *= 2) {
      const auto prediction = predict(cluster, hosts, algorithm, collective, bytes);
      if (prediction) curves[algorithm.name][hosts * cluster.per_host] = *prediction;
    }
  }
  return curves;
}

/// The curves of algorithms that are the fastest somewhere. An algorithm that cannot be is not
/// simulated. Where another is the fastest, it is simulated only if that takes a moment.
Curves curves_of_fastest(const RegularCluster& cluster, Collective collective, double bytes,
                         const ScaleOptions& options) {
  constexpr double kMoment = kMostSteps / 20;
  Curves curves;
  for (Rank hosts = 1; hosts * cluster.per_host <= options.most_ranks; hosts *= 2) {
    const auto best = fastest(cluster, hosts, collective, bytes);
    if (best) curves[best->algorithm->name][hosts * cluster.per_host] = best->prediction;
  }
  for (auto& [name, points] : curves) {
    for (Rank hosts = 1; hosts * cluster.per_host <= options.most_ranks; hosts *= 2) {
      const Rank ranks = hosts * cluster.per_host;
      if (points.contains(ranks)) continue;
      const auto other = predict(cluster, hosts, *find_algorithm(name), collective, bytes, kMoment);
      if (other) points[ranks] = *other;
    }
  }
  return curves;
}

void print_table(const Curves& curves, double bytes) {
  fmt::print("\n{}: us\n{:>8}", bytes_text(bytes), "ranks");
  for (const auto& [algorithm, points] : curves) fmt::print(" {:>26}", algorithm);
  fmt::print("  best\n");
  for (const auto& [ranks, best] : best_of(curves)) {
    fmt::print("{:>8}", ranks);
    for (const auto& [algorithm, points] : curves) {
      const auto at = points.find(ranks);
      fmt::print(" {:>26}", at == points.end() ? "" : fmt::format("{:.1f}", at->second.us));
    }
    const Prediction& of = curves.at(best).at(ranks);
    fmt::print("  {} ({})\n", best, of.bottleneck);
  }
}

bool draw(const Curves& curves, double bytes, const ScaleOptions& options) {
  const std::string size = bytes_text(bytes);
  Chart chart{.title = fmt::format("{} of {}, simulated", options.operation, size),
              .x_label = "ranks",
              .y_label = "us",
              .series = {},
              .x_is_bytes = false};
  for (const auto& [algorithm, points] : curves) {
    Series& series = chart.series.emplace_back(Series{std::string(algorithm), {}, false});
    for (const auto& [ranks, prediction] : points) {
      series.points.emplace_back(ranks, prediction.us);
    }
  }
  std::string name = fmt::format("{}-{}.svg", options.picture, size);
  std::erase(name, ' ');
  return write_picture(name, draw_svg(chart));
}

}  // namespace

int plan_scale(const ScaleOptions& options) {
  const Result<Topology> topology = read_topology_file(options.topology);
  if (!topology.ok()) return fail(topology.status());
  const Result<RegularCluster> cluster = regular_cluster(*topology);
  if (!cluster.ok()) return fail(cluster.status());
  const Result<Collective> collective = collective_of(options.operation);
  if (!collective.ok()) return fail(collective.status());
  for (const std::string& name : options.algorithms) {
    if (find_algorithm(name) == nullptr) {
      return fail(failed(Code::invalid_argument, "there is no algorithm \"" + name + "\"",
                         "the known ones are:" + algorithm_names()));
    }
  }
  if (options.most_ranks < cluster->per_host || options.most_ranks > kMostRanks) {
    return fail(failed(Code::invalid_argument,
                       fmt::format("cannot draw up to {} ranks", options.most_ranks),
                       fmt::format("give --ranks from {} to {}", cluster->per_host, kMostRanks)));
  }
  if (const Status fits = check_bytes(options.bytes); !fits.ok()) return fail(fits);
  Json out{{"tool", "coll-plan"},
           {"schema", 1},
           {"topology", topology->source},
           {"operation", options.operation},
           {"ranks_per_host", cluster->per_host},
           {"results", Json::array()}};
  if (!options.json) {
    fmt::print("{} on hosts of {} GPUs, up to {} ({})\n", options.operation, cluster->per_host,
               options.most_ranks, topology->source);
  }
  for (const std::uint64_t bytes : options.bytes) {
    const auto curves_of = options.algorithms.empty() ? curves_of_fastest : curves_asked_for;
    const Curves curves = curves_of(*cluster, *collective, static_cast<double>(bytes), options);
    if (!options.picture.empty() && !draw(curves, static_cast<double>(bytes), options)) return 1;
    if (!options.json) print_table(curves, static_cast<double>(bytes));
    for (const auto& [algorithm, points] : curves) {
      for (const auto& [ranks, of] : points) {
        out["results"].push_back(
            {{"bytes", bytes},
             {"algorithm", algorithm},
             {"ranks", ranks},
             {"us", of.us},
             {"busbw_GBps", busbw(*collective, ranks, static_cast<double>(bytes), of.us)},
             {"bottleneck", of.bottleneck},
             {"busy", of.busy}});
      }
    }
    std::cout << std::flush;
  }
  if (options.json) std::cout << out.dump(2) << '\n';
  return 0;
}

}  // namespace perf
