// SPDX-License-Identifier: Apache-2.0
// planner/: from a request to the plan an expert would have chosen. This file: how long a plan's
// calls should take, by simulating its schedules.
#include "planner/prediction.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/simulate.hpp"

namespace coll {
namespace {

/// Slots of a connection, at least.
constexpr std::uint32_t kCredits = 8;
/// Steps to simulate for one candidate, since the first call of a size waits for it; and for a
/// machine that was described, where only a person waits.
constexpr double kEffort = 2e3, kEffortDescribed = 1e5;

Route route_over(const PathCost& path, Loans loans, double bytes) {
  const double scale = bytes > kOwnCacheBytes ? kBeyondOwnCache : 1;
  if (loans == Loans::all && path.fetch_us_per_byte > 0) {
    return {.alpha_us = path.alpha_us,
            .receive_us_per_byte = path.fetch_us_per_byte * scale,
            .inline_bytes = path.inline_bytes,
            .long_us = path.fetch_us,
            .lent = true};
  }
  return {.alpha_us = path.alpha_us,
          .send_us_per_byte = path.send_us_per_byte * scale,
          .receive_us_per_byte = path.receive_us_per_byte * scale,
          .inline_bytes = path.inline_bytes,
          .long_us = path.long_us};
}

Prediction simulated(const World& world, const Plan& plan, double bytes) {
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < plan.spec.ranks; ++rank) {
    schedules.push_back(plan.algorithm->build(plan.spec, world.layout, rank));
  }
  const Load load{.bytes = bytes,
                  .slice_bytes = static_cast<double>(plan.slice_bytes),
                  .message_chunks = plan.message_chunks,
                  .copies = plan.lanes,
                  .credits = kCredits,
                  .effort = world.network ? kEffortDescribed : kEffort};
  const Result<Simulated> result = simulate(schedules, network_of(world, plan.loans, bytes), load);
  COLL_CHECK(result.ok(), "schedules that are proved end");
  return {result->us, result->bottleneck, result->busy};
}

}  // namespace

Network network_of(const World& world, Loans loans, double bytes) {
  if (world.network) return *world.network;
  Network network;
  const Layout& layout = world.layout;
  const double crowd = std::max(1.0, world.view.ranks_per_core);
  if (crowd > 1) network.crowd.assign(layout.host.size(), crowd);
  network.step_us = world.view.path.step_us;
  network.copy_us_per_byte = kSharedMemoryPath.send_us_per_byte;
  Route inside = route_over(kSharedMemoryPath, loans, bytes);
  Route outside = route_over(kTcpPath, Loans::none, bytes);
  const double hand_over = crowd > 1 ? kHandOverUs * crowd : 0;
  inside.alpha_us += hand_over;
  outside.alpha_us += hand_over;
  const bool fetched = loans == Loans::all;
  for (Rank rank = 0; fetched && rank < layout.ranks(); ++rank) {
    network.links.push_back(
        {"memory of rank " + std::to_string(rank), inside.receive_us_per_byte / kReadersAtOnce});
  }
  network.route = [hosts = layout.host, inside, outside, fetched](Rank source, Rank target) {
    const auto host = [&](Rank rank) { return hosts[static_cast<std::size_t>(rank)]; };
    if (host(source) != host(target)) return outside;
    Route route = inside;
    if (fetched) route.links = {static_cast<std::uint32_t>(source)};
    return route;
  };
  return network;
}

Prediction estimate(const World& world, const Plan& plan, double bytes) {
  return {.us = predict_us(plan.cost, bytes, plan.slice_bytes, plan.loans, world.view),
          .bottleneck = {},
          .busy = 0};
}

Prediction predict(const World& world, const Plan& plan, double bytes) {
  const Collective collective = plan.spec.collective;
  const bool pair = collective == Collective::send || collective == Collective::recv;
  const bool feasible =
      !pair && plan.spec.ranks <= (world.network ? kMostDescribedRanks : kMostSimulatedRanks);
  return feasible ? simulated(world, plan, bytes) : estimate(world, plan, bytes);
}

}  // namespace coll
