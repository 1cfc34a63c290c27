// SPDX-License-Identifier: Apache-2.0
// How long a plan's calls should take, by simulating its schedules.
#include "planner/prediction.hpp"

#include <algorithm>
#include <cmath>

#include "planner/closed_formula.hpp"
#include "planner/plan_cut.hpp"
#include "schedule/simulate/least_time.hpp"
#include "schedule/simulate/simulate.hpp"

namespace coll {
namespace {

/// Steps to simulate for one candidate, since the first call of a size waits for it; and for a
/// machine that was described, where only a person waits.
constexpr double kEffort = 2e3, kEffortDescribed = 1e5;

/// The shortest message that both sides copy: kSharedBytes of shm_share.hpp.
constexpr double kLeastHelped = 128 << 10;

/// The loans that count for its time. Of sums, half of the messages at most are fetched.
Loans priced_loans(const Plan& plan) {
  const bool some = plan.loans == Loans::all && reduces(plan.spec.collective);
  return some ? Loans::shared : plan.loans;
}

/// As the ranks are likely to find.
Plan likely_plan(const World& world, const Plan& plan, double bytes) {
  Plan likely = plan;
  likely.loans = likely_loans(world, plan, bytes);
  return likely;
}

/// In calls of `bytes`.
Route route_over(const CostConstants& costs, const PathCost& path, Loans loans, double bytes,
                 double slots_bytes, double ranks_per_core) {
  Route route = route_over(path);
  const bool cold = ranks_per_core > 1 && slots_bytes * ranks_per_core > costs.cache.slot_bytes;
  const bool cached = in_own_cache(costs, bytes, ranks_per_core);
  const double busy = ranks_per_core > 1 ? costs.sharing.crowded_copy : 1;
  const double slow = cold ? costs.cache.cold_slots : !cached ? path.slowdown : busy;
  route.send_us_per_byte *= slow;
  route.receive_us_per_byte *= slow;
  if (ranks_per_core > 1) route.page_us_per_byte = 0;
  if (loans == Loans::all) {
    route.lent_bytes = path.fetched_bytes;
    route.lent_us = path.fetch_us;
    route.lent_us_per_byte = fetched_us_per_byte(costs, path, bytes, ranks_per_core);
  }
  return route;
}

/// Each rank's core. Neighbours are on different cores in turn, as a scheduler spreads processes
/// that it may put anywhere.
std::vector<std::uint32_t> shared_cores(const Layout& layout, const CostView& view) {
  std::vector<std::uint32_t> core(layout.host.size());
  if (view.cores.size() == 1) {
    for (std::uint32_t rank = 0; rank < core.size(); ++rank) core[rank] = rank % view.cores[0];
    return core;
  }
  std::uint32_t first = 0;  // of the host
  for (Rank host = 0; host < layout.hosts(); ++host) {
    const std::vector<Rank>& members = layout.members_of(host);
    const double even = std::ceil(static_cast<double>(members.size()) / view.ranks_per_core);
    const std::uint32_t cores = view.cores.empty() ? static_cast<std::uint32_t>(even)
                                                   : view.cores[static_cast<std::size_t>(host)];
    for (std::uint32_t place = 0; place < members.size(); ++place) {
      core[static_cast<std::size_t>(members[place])] = first + place % cores;
    }
    first += cores;
  }
  return core;
}

/// Into how many bytes of slots a rank's messages go, on one lane: of each connection, no more of
/// them than a call sends and one more, since the slot goes first that came back last. What is only
/// copied is staged or fetched where that is much.
double slots_of(const World& world, const Plan& plan, double bytes) {
  if (!reduces(plan.spec.collective)) return 0;
  const double peers = std::max<double>(1, plan.cost.peers);
  const double each = plan.cost.moved() * bytes / peers;
  const double message = std::min<double>(plan.slice_bytes, each);
  return peers * std::min(world.credits * message, each + message);
}

Load load_of(const World& world, const Plan& plan, double bytes) {
  return {.bytes = bytes,
          .slice_bytes = static_cast<double>(plan.slice_bytes),
          .message_chunks = plan.message_chunks,
          .copies = plan.lanes,
          .credits = world.credits,
          .effort = world.described() ? kEffortDescribed : kEffort,
          .in_a_row = !world.described(),
          .one_buffer = plan.spec.collective == Collective::broadcast};
}

Prediction simulated(const World& world, const Network& network, const Plan& plan, double bytes,
                     double most_score = kAnyScore) {
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < plan.spec.ranks; ++rank) {
    schedules.push_back(plan.algorithm->build(plan.spec, world.layout, rank));
  }
  Load load = load_of(world, plan, bytes);
  if (load.in_a_row) load.most_score = most_score;
  const Result<Simulated> result = simulate(schedules, network, load);
  COLL_CHECK(result.ok(), "schedules that are proved end");
  return {.us = result->us,
          .each_us = load.in_a_row ? result->each_us : result->us,
          .bottleneck = result->bottleneck,
          .busy = result->busy};
}

/// The way between the first and the last rank with a GPU, the farthest there is on most machines,
/// as the closed formula takes it.
PathCost far_path(const World& world, const Plan& plan) {
  const Network& network = reduces(plan.spec.collective) ? *world.network : *world.measured_network;
  const Route route = network.route(0, world.layout.ranks() - 1);
  double narrowest_us_per_byte = 0;
  for (const std::uint32_t link : route.links)
    narrowest_us_per_byte = std::max(narrowest_us_per_byte, network.links[link].us_per_byte);
  return {.alpha_us = route.alpha_us,
          .step_us = network.step_us,
          .send_us = route.send_us,
          .send_us_per_byte = narrowest_us_per_byte,
          .receive_us_per_byte = route.receive_us_per_byte,
          .long_us = route.long_us};
}

}  // namespace

Route route_over(const PathCost& path) {
  return {.alpha_us = path.alpha_us,
          .send_us = path.send_us,
          .send_us_per_byte = path.send_us_per_byte,
          .receive_us_per_byte = path.receive_us_per_byte,
          .inline_bytes = path.inline_bytes,
          .line_bytes = path.line_bytes,
          .line_us = path.line_us,
          .long_us = path.long_us,
          .page_bytes = path.page_bytes,
          .page_us_per_byte = path.page_us_per_byte};
}

bool senders_help(const World& world, const CollectiveSpec& spec, double bytes) {
  if (!world.shared_memory || spec.ranks != 2 || world.view.ranks_per_core > 1) return false;
  switch (spec.collective) {
    case Collective::broadcast:
      return bytes >= kLeastHelped;
    case Collective::gather:
    case Collective::scatter:
      return bytes / 2 >= kLeastHelped;
    default:
      return false;
  }
}

Network network_of(const World& world, const CostConstants& costs, const Plan& plan, double bytes) {
  if (world.measured_network && !reduces(plan.spec.collective)) return *world.measured_network;
  if (world.network) return *world.network;
  Network network;
  const Layout& layout = world.layout;
  const double crowd = world.view.ranks_per_core;
  if (crowd > 1) {
    network.core = shared_cores(layout, world.view);
    network.hand_over_us = costs.sharing.hand_over_us;
  }
  network.step_us = (costs.*world.view.path).step_us;
  if (world.shared_memory) network.staged_bytes = costs.copy.staged_bytes;
  network.copy_us_per_byte =
      costs.copy.us_per_byte * (in_own_cache(costs, bytes, crowd) ? 1 : costs.copy.slowdown);
  Route inside = route_over(costs, costs.memory, priced_loans(plan), bytes,
                            slots_of(world, plan, bytes), crowd);
  if (senders_help(world, plan.spec, bytes)) inside.lent_us_per_byte *= costs.sharing.helped_fetch;
  const Route outside = route_over(costs, costs.*world.view.between, Loans::none, bytes, 0, crowd);
  const bool fetched = priced_loans(plan) == Loans::all;
  for (Rank rank = 0; fetched && rank < layout.ranks(); ++rank) {
    network.links.push_back({"memory of rank " + std::to_string(rank),
                             inside.lent_us_per_byte / costs.sharing.readers_at_once});
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

Prediction estimate(const World& world, const CostConstants& costs, const Plan& plan,
                    double bytes) {
  PathCost path = world.shared_memory ? costs.memory : costs.*world.view.path;
  if (world.measured_network) path = far_path(world, plan);
  const double us = predict_us(plan.cost, bytes, plan.slice_bytes, priced_loans(plan), costs, path,
                               world.view.ranks_per_core);
  return {.us = us, .each_us = us, .bottleneck = {}, .busy = 0};
}

bool is_simulated(const World& world, const CollectiveSpec& spec) {
  const bool pair = spec.collective == Collective::send || spec.collective == Collective::recv;
  return !pair && spec.ranks <= (world.described() ? kMostDescribedRanks : kMostSimulatedRanks);
}

Prediction predict(const World& world, const CostConstants& costs, const Plan& planned,
                   double bytes, double most_score) {
  const Plan plan = likely_plan(world, planned, bytes);
  return is_simulated(world, plan.spec)
             ? simulated(world, network_of(world, costs, plan, bytes), plan, bytes, most_score)
             : estimate(world, costs, plan, bytes);
}

Prediction expect(const World& world, const Plan& plan, double bytes) {
  if (world.measured_network && is_simulated(world, plan.spec))
    return simulated(world, *world.measured_network, plan, bytes);
  return predict(world, world.expected_costs(), plan, bytes);
}

double least_us(const World& world, const CostConstants& costs, const Plan& planned, double bytes) {
  const Plan plan = likely_plan(world, planned, bytes);
  const Rank ranks = plan.spec.ranks, some[] = {0, ranks / 2, ranks - 1};
  const auto build = [&](Rank rank) {
    return plan.algorithm->build(plan.spec, world.layout, rank);
  };
  return least_us(build, some, network_of(world, costs, plan, bytes), load_of(world, plan, bytes));
}

}  // namespace coll
