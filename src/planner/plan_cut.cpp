// SPDX-License-Identifier: Apache-2.0
// How many lanes a call gets, and how long its slices are.
#include "planner/plan_cut.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace coll {
namespace {

bool side_by_side(const World& world) {
  return world.network && !world.network->threads;
}

/// The way between the first and the last rank, the farthest there is on most machines.
Route far_route(const World& world) {
  return world.network->route(0, world.layout.ranks() - 1);
}

/// The longest slice that GPUs of a described machine send with flags: shorter than any other, but
/// without what a long message costs. 0 where there is none such.
std::uint32_t flagged_slice(const World& world) {
  if (!side_by_side(world) || world.layout.ranks() < 2) return 0;
  const double bytes = std::min(far_route(world).inline_bytes, world.costs().cut.least_slice_bytes);
  return static_cast<std::uint32_t>(bytes) / 64 * 64;
}

std::uint32_t least_slice(const World& world) {
  return static_cast<std::uint32_t>(world.costs().cut.least_slice_bytes);
}

double longest_message(const Plan& plan, double bytes) {
  return bytes * plan.cost.message_chunks / plan.cost.chunks;
}

/// Does each rank send each other one as much as it receives from it, and sum nothing?
bool exchanges_blocks(const CollectiveSpec& spec) {
  return !spec.unequal &&
         (spec.collective == Collective::all_gather || spec.collective == Collective::all_to_all);
}

/// Does each rank send each other one as much as it receives from it, and sum?
bool exchanges_sums(const CollectiveSpec& spec) {
  return !spec.unequal && (spec.collective == Collective::all_reduce ||
                           spec.collective == Collective::reduce_scatter);
}

/// The most lanes, and how many times as long as others the slices are.
struct PairCut {
  double lanes = 2;
  double slices = 1;
};
/// Of two ranks of a host, each with a core of its own. The model does not see that finer cuts
/// mostly cost them time, over shared memory and over the kernel's TCP. (docs/performance.md)
PairCut pair_cut(const World& world, const CollectiveSpec& spec) {
  if (world.network || spec.ranks != 2 || world.view.ranks_per_core > 1) return {};
  const CutRules& rules = world.costs().cut;
  if (world.view.path == &CostConstants::kernel)
    return {rules.pair_socket_lanes, rules.pair_socket_slices};
  if (!world.shared_memory) return {};
  return {rules.pair_lanes, exchanges_blocks(spec) ? rules.pair_slices
                            : exchanges_sums(spec) ? rules.pair_sum_slices
                                                   : 1};
}

/// As long as pass well through the slots: a message cut finer waits for one more cache-line
/// transfer a slice and gains nothing: a second lane, or the next slice, overlaps the two ends.
/// What goes straight from the one caller's memory to the other's is cut coarser: each slice is a
/// system call. (docs/performance.md)
std::uint32_t slice_for(const World& world, const Plan& plan) {
  if (const std::uint32_t demanded = plan.demanded.slice_bytes; demanded != 0)
    return std::min((demanded + 63) / 64 * 64, world.slot_bytes);
  const bool straight =
      world.shared_memory ? plan.loans == Loans::all : !reduces(plan.spec.collective);
  // What is combined passes through slots, which are memory that each connection has to touch.
  if (straight && !reduces(plan.spec.collective)) return world.slot_bytes;
  if (straight) {
    const std::uint32_t half = world.slot_bytes / 2 / 64 * 64;
    return std::clamp(half, std::min(world.passing_bytes, world.slot_bytes), world.slot_bytes);
  }
  const double longer = pair_cut(world, plan.spec).slices * world.passing_bytes;
  return static_cast<std::uint32_t>(std::min<double>(longer, world.slot_bytes)) / 64 * 64;
}

/// Up to this many bytes a call's messages are better fetched than passed through slots. Data that
/// is combined on arrival gains no copy by being fetched first. Data for several ranks is copied
/// once for all of them, which is less work for ranks that share cores.
double most_fetched(const CutRules& rules, const CollectiveSpec& spec, bool crowded) {
  const Collective collective = spec.collective;
  if (reduces(collective)) return 0;
  const bool same_to_all =
      collective == Collective::broadcast || collective == Collective::all_gather;
  if (crowded && spec.ranks > 2 && same_to_all) return 0;
  if (collective == Collective::all_gather)
    return crowded ? rules.crowded_all_gather_fetched_bytes : rules.all_gather_fetched_bytes;
  if (collective == Collective::all_to_all)
    return crowded ? rules.crowded_all_to_all_fetched_bytes : rules.all_to_all_fetched_bytes;
  return rules.fetched_bytes;
}

bool is_pair_on_own_cores(const CollectiveSpec& spec, const World& world) {
  return spec.ranks == 2 && world.view.ranks_per_core <= 1;
}

/// Do the ranks find out from their messages whether these are better fetched? Measured for two
/// ranks with a core each. Of messages that are only copied, those are tried that are not cut
/// anyway, and exchanges while the cache that both cores share holds them: four times as much as a
/// core's own. What the receiver combines is fetched only if both send: where messages go one way,
/// one rank can write while the other one reads. And a core's own cache has to hold what its rank
/// sends: half of the call's bytes in reduce_scatter, as many as the call has in an all_reduce by
/// two_shot. (docs/performance.md)
bool may_be_fetched_faster(const CollectiveSpec& spec, double bytes, const World& world) {
  if (!is_pair_on_own_cores(spec, world)) return false;
  if (!reduces(spec.collective)) {
    return bytes <= world.passing_bytes ||
           (exchanges_blocks(spec) && in_own_cache(world.costs(), bytes / 4, 1));
  }
  if (spec.unequal) return false;
  const double used = spec.collective == Collective::all_reduce       ? bytes
                      : spec.collective == Collective::reduce_scatter ? bytes / 2
                                                                      : HUGE_VAL;
  return in_own_cache(world.costs(), used, 1);
}

/// Are the results of the call fetched? An all_reduce may move as many results as inputs, and
/// nobody combines results. Once the caches do not hold the call, two ranks with a core each gain
/// more by fetching them than they lose by longer slices of the inputs. (docs/performance.md) What
/// was measured may decide that: each element of the sum is of one operation, the same in any plan.
bool fetches_results(const CollectiveSpec& spec, double bytes, const World& world) {
  return spec.collective == Collective::all_reduce && is_pair_on_own_cores(spec, world) &&
         !in_own_cache(world.costs(), bytes, 1);
}

/// Does one side of each pair only send, and the other only receive? A program's own sends may, but
/// mostly each is answered.
bool goes_one_way(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}

/// Whether messages that are only copied are better fetched, by what copies and fetches cost.
bool are_better_fetched(const CollectiveSpec& spec, double bytes, const World& world) {
  const bool crowded = world.view.ranks_per_core > 1;
  const CutRules& rules = world.costs().cut;
  const bool results = fetches_results(spec, bytes, world);
  const CostConstants costs =
      results ? scaled(world.costs(), world.view.factors) : world.costs_for(spec.collective);
  const PathCost& cost = costs.memory;
  // Both sides at once copy into slots and out of them, too.
  const bool helped = senders_help(world, spec, bytes);
  const double fetch_us_per_byte =
      cost.fetch_us_per_byte * (helped ? world.costs().sharing.helped_fetch : 1);
  const double slots_us_per_byte = helped
                                       ? std::max(cost.send_us_per_byte, cost.receive_us_per_byte)
                                       : cost.send_us_per_byte + cost.receive_us_per_byte;
  const double most = results ? rules.results_fetched : 1;
  const bool dear = fetch_us_per_byte > most * slots_us_per_byte;
  const bool pays = helped || results || bytes <= most_fetched(rules, spec, crowded);
  return pays && !dear;
}

/// Lending saves copies but costs waiting: the sender's call ends only when the receiver has taken
/// what was lent.
Loans loans_for(const CollectiveSpec& spec, double bytes, const World& world) {
  const bool crowded = world.view.ranks_per_core > 1;
  const CutRules& rules = world.costs().cut;
  const double least = crowded                         ? rules.crowded_lent_bytes
                       : goes_one_way(spec.collective) ? rules.one_way_lent_bytes
                                                       : rules.lent_bytes;
  const bool hosts_lend = !world.network && (world.layout.hosts() < world.layout.ranks() ||
                                             world.view.between == &CostConstants::rdma);
  const bool some_lend = world.shared_memory || hosts_lend;
  if (!some_lend || bytes < least) return Loans::none;
  // Each connection says for itself whether it lends. None but those of shared memory fetch.
  if (!world.shared_memory) return Loans::shared;
  const bool tried = may_be_fetched_faster(spec, bytes, world);
  if (tried && !reduces(spec.collective)) return Loans::if_faster;
  if (are_better_fetched(spec, bytes, world)) return Loans::all;
  return tried ? Loans::if_faster : Loans::shared;
}

/// In an all_to_all each rank mostly fills slots for all others at once. Where ranks share cores,
/// two lanes of them may be more than a core's own cache holds. (docs/performance.md)
bool second_lane_fits(const World& world, const Plan& plan) {
  const bool slots = world.shared_memory && plan.loans != Loans::all;
  const bool crowded = world.view.ranks_per_core > 1;
  if (!slots || !crowded || plan.spec.collective != Collective::all_to_all) return true;
  const double bytes = 2.0 * plan.slice_bytes * (plan.spec.ranks - 1);
  return in_own_cache(world.costs(), bytes, world.view.ranks_per_core);
}

/// Lanes that take turns on a thread are worth two of them, so that one fills a slot while the
/// other empties one. Those that run side by side each hide the latency of the others; flagged
/// slices of one message go all at once.
std::uint32_t lanes_of(const World& world, const Plan& plan, double bytes) {
  if (plan.demanded.lanes != 0) return std::min(plan.demanded.lanes, world.max_lanes);
  const double slices = plan.cost.moved() * bytes / plan.slice_bytes;
  const CutRules& rules = world.costs().cut;
  if (side_by_side(world)) {
    const bool flagged = plan.slice_bytes <= flagged_slice(world);
    const double wanted = flagged ? std::ceil(longest_message(plan, bytes) / plan.slice_bytes)
                                  : slices / rules.slices_of_one_lane;
    return static_cast<std::uint32_t>(
        std::clamp(wanted, 1.0, static_cast<double>(world.max_lanes)));
  }
  const double of_one = world.shared_memory ? rules.slices_of_one_lane : rules.slices_of_one_socket;
  const double most = second_lane_fits(world, plan) ? pair_cut(world, plan.spec).lanes : 1;
  return std::min(slices > of_one ? static_cast<std::uint32_t>(most) : 1U, world.max_lanes);
}

/// Slices of about `bytes`, as the plan's algorithm can cut them.
std::uint32_t sliced(const World& world, const Plan& plan, std::uint32_t bytes) {
  return std::max(bytes, std::min(world.slot_bytes, plan.message_chunks * 64));
}

/// The sensible ones, up to one that holds all.
std::vector<std::uint32_t> slices_to_try(const World& world, double moved) {
  std::vector<std::uint32_t> slices;
  const std::uint32_t least = least_slice(world);
  if (const std::uint32_t flagged = flagged_slice(world); flagged > 0 && flagged < least) {
    slices.push_back(flagged);
  }
  for (std::uint64_t slice = least;
       slice <= world.slot_bytes && static_cast<double>(slice) < 4 * moved; slice *= 4) {
    slices.push_back(static_cast<std::uint32_t>(slice));
  }
  return slices;
}

/// Numbers of lanes that leave each lane at least a slice.
std::vector<std::uint32_t> lanes_to_try(const World& world, double moved, std::uint32_t slice) {
  std::vector<std::uint32_t> list{1};
  for (std::uint32_t lanes = 2; lanes <= world.max_lanes && lanes * slice <= moved; lanes *= 2)
    list.push_back(lanes);
  return list;
}

}  // namespace

Loans likely_loans(const World& world, const Plan& plan, double bytes) {
  if (plan.loans != Loans::if_faster || reduces(plan.spec.collective)) return plan.loans;
  return are_better_fetched(plan.spec, bytes, world) ? Loans::all : Loans::shared;
}

double alike(const World& world) {
  const ModelError& error = world.costs().error;
  return world.described() ? error.described_alike : error.alike;
}

std::uint32_t size_class(std::uint64_t bytes) {
  return bytes <= 1 ? 0 : static_cast<std::uint32_t>(std::bit_width(bytes - 1));
}

double most_bytes(std::uint32_t size_class) {
  return static_cast<double>(std::uint64_t{1} << size_class);
}

bool cut_alike(const Plan& a, const Plan& b) {
  return a.loans == b.loans && a.slice_bytes == b.slice_bytes && a.lanes == b.lanes;
}

Plan plan_with(const World& world, const CollectiveSpec& spec, const Algorithm& algorithm,
               Cut demanded, std::uint32_t size_class) {
  Plan plan;
  plan.algorithm = &algorithm;
  plan.spec = spec;
  plan.demanded = demanded;
  plan.cost = algorithm.cost(spec, world.layout);
  const Cost& cost = plan.cost;
  const double bytes = most_bytes(size_class);
  plan.message_chunks = cost.message_chunks;
  plan.loans = loans_for(spec, bytes, world);
  plan.slice_bytes = sliced(world, plan, slice_for(world, plan));
  plan.lanes = lanes_of(world, plan, bytes);
  return plan;
}

std::vector<Plan> plans_with(const World& world, const CollectiveSpec& spec,
                             const Algorithm& algorithm, Cut demanded, std::uint32_t size_class) {
  std::vector<Plan> plans{plan_with(world, spec, algorithm, demanded, size_class)};
  const std::uint32_t flagged = flagged_slice(world);
  if (flagged == 0 || demanded.slice_bytes != 0) return plans;
  Plan plan = plans.front();
  plan.slice_bytes = sliced(world, plan, flagged);
  plan.lanes = lanes_of(world, plan, most_bytes(size_class));
  // A schedule of many chunks cannot be cut so finely.
  if (plan.slice_bytes == flagged) plans.push_back(plan);
  return plans;
}

std::vector<Candidate> cuts(const World& world, const Plan& rule, std::uint32_t size_class,
                            Search search, const std::optional<Prediction>& of_rule) {
  const double bytes = most_bytes(size_class);
  const CostConstants costs = world.costs_for(rule.spec.collective);
  std::vector<Candidate> list{{rule, of_rule ? *of_rule : predict(world, costs, rule, bytes)}};
  // The model does not know a call that fetches a half of its messages.
  const bool known = rule.loans != Loans::all || !reduces(rule.spec.collective);
  if (!known || !is_simulated(world, rule.spec)) return list;
  const double moved = rule.cost.moved() * bytes;
  // The measured factors of a copy and of a fetch are rounded to doublings, each by up to sqrt(2):
  // the other protocol has to win by more than that.
  const auto handicap = [&](const Candidate& of) {
    return of.plan.loans == rule.loans ? 1 : std::numbers::sqrt2;
  };
  const auto best = [&] {
    return std::min_element(list.begin(), list.end(), [&](const Candidate& a, const Candidate& b) {
      return b.prediction.slower(handicap(a) / handicap(b), a.prediction);
    });
  };
  const auto weigh = [&](Plan plan) {
    const auto same = [&](const Candidate& of) { return cut_alike(of.plan, plan); };
    if (std::any_of(list.begin(), list.end(), same)) return;
    const double most = search == Search::all ? kAnyScore : best()->prediction.score();
    list.push_back({plan, predict(world, costs, plan, bytes, most)});
  };
  // A described machine has no such protocols.
  if (world.shared_memory && !world.network && !reduces(rule.spec.collective) &&
      rule.loans != Loans::if_faster) {
    Plan plan = rule;
    plan.loans = plan.loans == Loans::all ? Loans::shared : Loans::all;
    plan.slice_bytes = sliced(world, plan, slice_for(world, plan));
    weigh(plan);
  }
  if (rule.demanded.slice_bytes == 0) {
    Plan plan = best()->plan;
    // Longer ones than the rule's would drive the slots out of the caches, which the model does not
    // see.
    const bool through_slots = world.shared_memory && !world.network && plan.loans != Loans::all;
    const std::uint32_t longest = through_slots ? slice_for(world, plan) : world.slot_bytes;
    for (const std::uint32_t slice : slices_to_try(world, moved)) {
      if (slice > longest) continue;
      plan.slice_bytes = sliced(world, plan, slice);
      weigh(plan);
      if (!side_by_side(world)) continue;
      Plan abreast = plan;
      abreast.lanes = lanes_of(world, plan, bytes);
      weigh(abreast);
    }
  }
  if (rule.demanded.lanes == 0) {
    Plan plan = best()->plan;
    for (const std::uint32_t lanes : lanes_to_try(world, moved, plan.slice_bytes)) {
      plan.lanes = lanes;
      weigh(plan);
    }
  }
  const auto chosen = best();
  if (list.front().prediction.slower(alike(world) * handicap(*chosen), chosen->prediction)) {
    std::rotate(list.begin(), chosen, std::next(chosen));
  }
  return list;
}

std::vector<Cut> sensible_cuts(const World& world, const Cost& cost, std::uint32_t size_class) {
  const double moved = cost.moved() * most_bytes(size_class);
  std::vector<Cut> list;
  if (moved <= least_slice(world)) return list;
  for (const std::uint32_t slice : slices_to_try(world, moved)) {
    for (const std::uint32_t lanes : lanes_to_try(world, moved, slice)) {
      list.push_back({lanes, slice});
    }
  }
  return list;
}

}  // namespace coll
