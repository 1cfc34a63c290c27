// SPDX-License-Identifier: Apache-2.0
// Chooses the plan of each size class: the tuning table first, then the simulator.
#include "planner/planner.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <tuple>

#include "base/hash.hpp"
#include "planner/algorithm_choice.hpp"
#include "planner/plan_memory.hpp"

namespace coll {
namespace {

bool faster(const Candidate& a, const Candidate& b) {
  return b.prediction.slower(1, a.prediction);
}

std::string_view text_of(Loans loans) {
  switch (loans) {
    case Loans::none:
      return "through slots";
    case Loans::shared:
      return "read in place where shared, else through slots";
    case Loans::if_faster:
      return "read in place where shared, else fetched where that is found faster, else through "
             "slots";
    case Loans::all:
      return "read in place where shared, else fetched where possible, else through slots";
  }
  return {};
}

/// `known`: the candidate with the same algorithm, if it has been predicted as `cuts` would.
Plan well_cut(const World& world, const Plan& rule, std::uint32_t size_class,
              const Candidate* known = nullptr) {
  std::optional<Prediction> of_rule;
  if (known != nullptr && cut_alike(known->plan, rule)) of_rule = known->prediction;
  const Candidate best = cuts(world, rule, size_class, Search::best, of_rule).front();
  Plan plan = best.plan;
  plan.predicted_us = best.prediction.us;
  plan.predicted_each_us = best.prediction.each_us;
  return plan;
}

/// The fastest of one algorithm's plans.
Candidate fastest_of(const World& world, const CostConstants& costs, const std::vector<Plan>& plans,
                     double bytes, double most_score) {
  Candidate best{plans.front(), predict(world, costs, plans.front(), bytes, most_score)};
  for (std::size_t i = 1; i < plans.size(); ++i) {
    if (least_us(world, costs, plans[i], bytes) > best.prediction.us) continue;
    const Candidate other{plans[i], predict(world, costs, plans[i], bytes)};
    if (faster(other, best)) best = other;
  }
  return best;
}

/// " two_shot 3.10 us (2.90 in a row)"
std::string text_of(std::string_view name, const Prediction& prediction) {
  char line[128];
  std::snprintf(line, sizeof line, " %s %.2f us", std::string(name).c_str(), prediction.us);
  std::string text = line;
  if (prediction.each_us != prediction.us) {
    std::snprintf(line, sizeof line, " alone, %.2f in a row", prediction.each_us);
    text += line;
  }
  if (!prediction.bottleneck.empty()) text.append(" (").append(prediction.bottleneck).append(")");
  return text + ";";
}

/// What was measured of the call, and whether that has decided against the model.
std::string explain_tuning(const World& world, const Plan& plan, std::uint32_t size_class,
                           const Algorithm& model) {
  const std::vector<Measured> times = measured(world.tuning, plan.spec, world.layout, size_class);
  if (times.empty()) return {};
  std::string text = "measured (" + world.tuning_file + "):";
  char number[64];
  for (const Measured& each : times) {
    std::snprintf(number, sizeof number, " %.2f us;", each.us);
    text.append(" ").append(each.recipe.text()).append(number);
  }
  text.back() = '\n';
  if (plan.forced) return text;
  const Recipe& chosen = better_than_model(times, model)->recipe;
  if (chosen == Recipe{std::string(model.name)})
    return text + "chosen by: the model; nothing measured faster by more than the noise\n";
  return text + "chosen by: the tuning table, over the model's " +
         (plan.algorithm == &model ? "own cut of " : "") + std::string(model.name) + "\n";
}

/// Where the numbers come from: the model, and what ranks measured when they met.
std::string explain_costs(const World& world, Collective collective) {
  std::string text = "model: " + world.model->name + ", " + world.model->date;
  if (world.model != default_cost_model()) text += " (" + world.tuning_file + ")";
  const ProbeCost &now = world.view.measured, &usual = world.costs().probe;
  const std::pair<const char*, double ProbeCost::*> probes[] = {
      {"a copy", &ProbeCost::copy_us_per_byte}, {"a fetch", &ProbeCost::fetch_us_per_byte},
      {"a cache line", &ProbeCost::line_us},    {"passing a byte", &ProbeCost::pass_us_per_byte},
      {"a calculation", &ProbeCost::chain_us},  {"a TCP send", &ProbeCost::send_us}};
  std::string measured;
  char line[128];
  for (const auto& [name, probe] : probes) {
    if (now.*probe <= 0 || usual.*probe <= 0) continue;
    std::snprintf(line, sizeof line, " %s %.2f;", name, now.*probe / usual.*probe);
    measured += line;
  }
  if (world.measured_network) {
    // A network has these times per byte.
    std::snprintf(line, sizeof line,
                  "\nof the GPUs: a copy begins in %.2f us; the slowest copies %.0f GB/s\n",
                  world.measured_network->step_us, 1e-3 / world.measured_network->copy_us_per_byte);
    return text + line;
  }
  if (!measured.empty()) {
    measured.back() = '\n';
    text += "\nmeasured here, times the model's machine:" + measured;
    const CopyFactors factors = world.factors_for(collective);
    std::snprintf(line, sizeof line,
                  "the prediction above counts all of it, the choice below only copies x %g and "
                  "fetches x %g\n",
                  std::ldexp(1, factors.copy), std::ldexp(1, factors.fetch));
    return text + line;
  }
  return text + "\n";
}

}  // namespace

std::uint64_t Plan::digest() const {
  return Fnv1a().text(algorithm->name).word(lanes).word(slice_bytes).word(message_chunks).value();
}

std::vector<Candidate> candidates(const World& world, const CollectiveSpec& spec,
                                  std::uint32_t size_class, Search search) {
  const double bytes = most_bytes(size_class);
  const CostConstants costs = world.costs_for(spec.collective);
  std::vector<Candidate> list;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.competes(spec, world.layout)) continue;
    const Plan plan = plan_with(world, spec, algorithm, world.cut, size_class);
    list.push_back({plan, estimate(world, costs, plan, bytes)});
  }
  std::stable_sort(list.begin(), list.end(), faster);
  // The formula knows one kind of path only.
  const bool formula_holds = !world.network && world.layout.hosts() == 1;
  const bool crowded = world.view.ranks_per_core > 1;
  const ModelError& error = world.costs().error;
  const double far = crowded ? error.crowded_hopeless : error.hopeless;
  const auto hopeful = std::find_if(list.begin(), list.end(), [&](const Candidate& of) {
    return formula_holds && of.prediction.slower(far, list.front().prediction);
  });
  // Who is behind the best by more than the error is never chosen.
  const double error_cubed = alike(world) * alike(world) * alike(world);
  double most_score = kAnyScore;
  std::for_each(list.begin(), hopeful, [&](Candidate& of) {
    of =
        fastest_of(world, costs, plans_with(world, spec, *of.plan.algorithm, world.cut, size_class),
                   bytes, most_score);
    if (search == Search::best)
      most_score = std::min(most_score, error_cubed * of.prediction.score());
  });
  std::stable_sort(list.begin(), hopeful, faster);
  // Among candidates that the model cannot tell apart, prefer the fewest bytes, then the fewest
  // connections, because their slots stay in cache. Then prefer the fewest rounds, if what a call
  // passes on stays in cache too: that gains most where buffers are read in place. Where ranks
  // share cores and all wait for all, rounds come before connections: each round is a change of
  // ranks, of which the model knows the least. In ordered sums to a root connections come first:
  // where few are used, most ranks send and need not wait, and the model sees no gain in that.
  const bool waits = crowded && !has_root(spec.collective);
  const bool lands = world.shared_memory && spec.collective == Collective::all_reduce;
  const double passed_on = lands ? 2 * bytes : bytes;
  const bool cached = in_own_cache(world.costs(), passed_on, world.view.ranks_per_core);
  const auto burden = [&](const Candidate& of) {
    const Cost& cost = of.plan.cost;
    const double rounds = cached ? cost.rounds : 0;
    const bool to_root = crowded && spec.order != SumOrder::any && has_root(spec.collective);
    return std::tuple(to_root ? cost.peers : 0, to_root ? cost.rounds : 0,
                      std::lround(1e6 * (cost.sent + cost.received)), waits ? rounds : 0,
                      cost.peers, rounds);
  };
  const auto same = std::find_if(list.begin(), hopeful, [&](const Candidate& of) {
    return of.prediction.slower(alike(world), list.front().prediction);
  });
  const auto best = std::min_element(
      list.begin(), same,
      [&](const Candidate& a, const Candidate& b) { return burden(a) < burden(b); });
  std::rotate(list.begin(), best, std::next(best));
  return list;
}

Result<Plan> plan_afresh(const World& world, const PlanKey& key) {
  const auto& [spec, size_class] = key;
  // One rank among several, alone: nothing to choose, whatever is forced or was measured.
  if (spec.ranks == 1 && world.layout.ranks() > 1) {
    Plan plan = plan_with(world, spec, *find_algorithm("local"), world.cut, size_class);
    const CostConstants costs = world.costs_for(spec.collective);
    plan.predicted_us = plan.predicted_each_us =
        estimate(world, costs, plan, most_bytes(size_class)).us;
    return plan;
  }
  if (const auto forced = forced_recipe(world.algorithm, spec, world.layout, size_class)) {
    const Algorithm& algorithm = *find_algorithm(forced->algorithm);
    if (!algorithm.serves(spec, world.layout)) {
      return failed(Code::unsupported,
                    "COLL_ALGORITHM asks for " + forced->algorithm + ", which cannot do " +
                        std::string(name_of(spec.collective)) + " with " +
                        std::to_string(spec.ranks) + " ranks" +
                        (spec.order == SumOrder::tree ? " in the order that COLL_ORDER demands"
                         : spec.order == SumOrder::sided_tree ? " in the order of ranks"
                                                              : ""),
                    "choose another one or unset it");
    }
    const Cut cut = forced->cut.or_else(world.cut);
    Plan plan = well_cut(world, plan_with(world, spec, algorithm, cut, size_class), size_class);
    plan.forced = true;
    return plan;
  }
  const std::vector<Candidate> list = candidates(world, spec, size_class, Search::best);
  COLL_CHECK(!list.empty(), "every collective has an algorithm for every number of ranks");
  const std::vector<Measured> times = measured(world.tuning, spec, world.layout, size_class);
  const Measured* tuned = better_than_model(times, *list.front().plan.algorithm);
  const auto chosen = std::find_if(list.begin(), list.end(), [&](const Candidate& each) {
    return tuned == nullptr || each.plan.algorithm->name == tuned->recipe.algorithm;
  });
  COLL_CHECK(chosen != list.end(), "a table chooses among the candidates");
  // What knobs demand of every call holds here, too.
  const Cut cut = world.cut.or_else(tuned != nullptr ? tuned->recipe.cut : Cut{});
  const bool first = chosen == list.begin();  // others may not have been simulated
  Plan plan = well_cut(world, plan_with(world, spec, *chosen->plan.algorithm, cut, size_class),
                       size_class, first ? &*chosen : nullptr);
  if (tuned != nullptr) plan.measured_us = tuned->us;
  return plan;
}

Result<Plan> make_plan(const World& world, const PlanKey& key) {
  if (const auto remembered = remembered_plan(world, key)) return *remembered;
  COLL_ASSIGN(const Plan plan, plan_afresh(world, key));
  remember(world, key, plan);
  return plan;
}

std::string explain(const World& world, const Plan& plan, std::uint32_t size_class) {
  char line[256];
  std::string text;
  const Prediction expected = expect(world, plan, most_bytes(size_class));
  std::snprintf(
      line, sizeof line,
      "%s of up to %llu bytes over %d rank%s%s: %s, %u lane%s, slices of %u bytes, predicted "
      "%.2f us%s\n",
      std::string(name_of(plan.spec.collective)).c_str(),
      static_cast<unsigned long long>(std::uint64_t{1} << size_class), plan.spec.ranks,
      plan.spec.ranks == 1 ? "" : "s",
      plan.spec.order == SumOrder::any ? "" : " in the order of the tree",
      std::string(plan.algorithm->name).c_str(), plan.lanes, plan.lanes == 1 ? "" : "s",
      plan.slice_bytes, expected.us, plan.forced ? " (forced by COLL_ALGORITHM)" : "");
  text += line;
  text.append("protocol: messages ").append(text_of(plan.loans)).append("\n");
  text += explain_costs(world, plan.spec.collective);
  text.append("why: ").append(plan.algorithm->sentence).append("\n");
  text += "candidates:";
  const std::vector<Candidate> list = candidates(world, plan.spec, size_class);
  for (const Candidate& each : list) text += text_of(each.plan.algorithm->name, each.prediction);
  text.back() = '\n';
  const Plan rule = plan_with(world, plan.spec, *plan.algorithm, plan.demanded, size_class);
  text += "cuts:";
  for (const Candidate& each : cuts(world, rule, size_class)) {
    std::snprintf(line, sizeof line, "%u x %u bytes, %s", each.plan.lanes, each.plan.slice_bytes,
                  each.plan.loans == Loans::all         ? "fetched"
                  : each.plan.loans == Loans::if_faster ? "either"
                                                        : "slots");
    text += text_of(line, each.prediction);
  }
  text.back() = '\n';
  return text + explain_tuning(world, plan, size_class, *list.front().plan.algorithm);
}

}  // namespace coll
