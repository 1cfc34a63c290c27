// SPDX-License-Identifier: Apache-2.0
// planner/: from a request to the plan an expert would have chosen. This file: the choice.
#include "planner/planner.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

#include "base/hash.hpp"
#include "planner/algorithm_choice.hpp"

namespace coll {
namespace {

/// Calls of up to so many slices need no second lane: over shared memory one fills a slot while the
/// other empties one, over TCP the kernel's buffers do that.
constexpr double kSlicesOfOneLane = 2, kSlicesOfOneSocket = 8;

/// What a closed formula finds so many times as slow as the best is not worth simulating.
constexpr double kHopeless = 2;
/// Predictions that differ by less say nothing.
constexpr double kAlike = 1.03;

/// As long as pass well through the slots: a message cut finer waits for one more cache-line
/// transfer a slice and gains nothing, since a second lane already overlaps the two ends. What goes
/// straight from the one caller's memory to the other's is cut coarser: each slice is a system
/// call. (docs/performance.md)
std::uint32_t slice_for(const World& world, Collective collective, Loans loans) {
  if (world.slice_bytes != 0) return std::min(world.slice_bytes, world.slot_bytes);
  const bool straight = world.shared_memory ? loans == Loans::all : !reduces(collective);
  return straight ? world.slot_bytes : world.passing_bytes;
}

/// Up to how many bytes a call's messages are better fetched than passed through slots. To have
/// them fetched halves the copies, but the receiver makes them all: where messages go both ways at
/// once that is half the work for either side; where they go one way it shortens the way of a
/// single slice, and loses against two sides that copy slice after slice in step. What is combined
/// on arrival gains nothing by being fetched first. Beyond the caches memory is the limit either
/// way, the sooner the more ranks share it. Measured: docs/performance.md.
double most_fetched(Collective collective, bool crowded) {
  constexpr double kMiB = 1 << 20;
  if (reduces(collective)) return 0;
  if (collective == Collective::all_gather) return (crowded ? 2 : 32) * kMiB;
  if (collective == Collective::all_to_all) return (crowded ? 16 : 32) * kMiB;
  return kMiB;
}

/// To lend saves copies and costs time to wait: the sender's call ends when the receiver has taken
/// what it lent.
Loans loans_for(Collective collective, double bytes, const World& world) {
  constexpr double kLeast = 2 << 10, kLeastCrowded = 32 << 10;
  const bool crowded = world.view.ranks_per_core > 1;
  if (!world.shared_memory || bytes < (crowded ? kLeastCrowded : kLeast)) return Loans::none;
  return bytes <= most_fetched(collective, crowded) ? Loans::all : Loans::shared;
}

std::string_view text_of(Loans loans) {
  switch (loans) {
    case Loans::none:
      return "through slots";
    case Loans::shared:
      return "read in place where shared, else through slots";
    case Loans::all:
      return "read in place where shared, else fetched where possible, else through slots";
  }
  return {};
}

/// Lanes that take turns on a thread are worth two of them, so that one fills a slot while the
/// other empties one. Those that run side by side each hide the latency of the others.
std::uint32_t lanes_for(const World& world, double slices) {
  if (world.lanes != 0) return world.lanes;
  if (world.network && !world.network->threads) {
    return static_cast<std::uint32_t>(
        std::clamp(slices / kSlicesOfOneLane, 1.0, static_cast<double>(world.max_lanes)));
  }
  return slices > (world.shared_memory ? kSlicesOfOneLane : kSlicesOfOneSocket) ? 2 : 1;
}

double most_bytes(std::uint32_t size_class) {
  return static_cast<double>(std::uint64_t{1} << size_class);
}

/// What was measured of the call, and whether that has decided against the model.
std::string explain_tuning(const World& world, const Plan& plan, std::uint32_t size_class,
                           const Algorithm& model) {
  const std::vector<Measured> times = measured(world.tuning, plan.spec, world.layout, size_class);
  if (times.empty()) return {};
  std::string text = "measured (" + world.tuning_file + "):";
  char line[128];
  for (const Measured& each : times) {
    std::snprintf(line, sizeof line, " %s %.2f us;", std::string(each.algorithm->name).c_str(),
                  each.us);
    text += line;
  }
  text.back() = '\n';
  if (plan.forced) return text;
  return text + "chosen by: " +
         (plan.algorithm == &model
              ? "the model; nothing measured faster by more than the noise\n"
              : "the tuning table, over the model's " + std::string(model.name) + "\n");
}

}  // namespace

std::uint64_t Plan::digest() const {
  return Fnv1a().text(algorithm->name).word(lanes).word(slice_bytes).word(message_chunks).value();
}

std::uint32_t size_class(std::uint64_t bytes) {
  return bytes <= 1 ? 0 : static_cast<std::uint32_t>(std::bit_width(bytes - 1));
}

Plan plan_with(const World& world, const CollectiveSpec& spec, const Algorithm& algorithm,
               std::uint32_t size_class) {
  Plan plan;
  plan.algorithm = &algorithm;
  plan.spec = spec;
  plan.cost = algorithm.cost(spec, world.layout);
  const Cost& cost = plan.cost;
  const double bytes = most_bytes(size_class);
  plan.message_chunks = cost.message_chunks;
  plan.loans = loans_for(spec.collective, bytes, world);
  plan.slice_bytes = std::max(slice_for(world, spec.collective, plan.loans),
                              std::min(world.slot_bytes, plan.message_chunks * 64));
  plan.lanes = std::min(lanes_for(world, cost.moved() * bytes / plan.slice_bytes), world.max_lanes);
  return plan;
}

std::vector<Candidate> candidates(const World& world, const CollectiveSpec& spec,
                                  std::uint32_t size_class) {
  const double bytes = most_bytes(size_class);
  std::vector<Candidate> list;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.supports(spec, world.layout)) continue;
    const Plan plan = plan_with(world, spec, algorithm, size_class);
    list.push_back({&algorithm, plan, estimate(world, plan, bytes)});
  }
  const auto faster = [](const Candidate& a, const Candidate& b) {
    return a.prediction.us < b.prediction.us;
  };
  std::stable_sort(list.begin(), list.end(), faster);
  // The formula knows one kind of path only.
  const bool formula_holds = !world.network && world.layout.hosts() == 1;
  const auto hopeful = std::find_if(list.begin(), list.end(), [&](const Candidate& of) {
    return formula_holds && of.prediction.us > kHopeless * list.front().prediction.us;
  });
  std::for_each(list.begin(), hopeful,
                [&](Candidate& of) { of.prediction = predict(world, of.plan, bytes); });
  std::stable_sort(list.begin(), hopeful, faster);
  // Among those that the model cannot tell apart, the one that moves the least, then the one with
  // the fewest connections: their slots stay in cache.
  const auto burden = [&](const Candidate& of) {
    const Cost& cost = of.plan.cost;
    return std::pair(std::lround(1e6 * (cost.sent + cost.received)), cost.peers);
  };
  const auto alike = std::find_if(list.begin(), hopeful, [&](const Candidate& of) {
    return of.prediction.us > kAlike * list.front().prediction.us;
  });
  const auto best = std::min_element(
      list.begin(), alike,
      [&](const Candidate& a, const Candidate& b) { return burden(a) < burden(b); });
  std::rotate(list.begin(), best, std::next(best));
  return list;
}

Result<Plan> make_plan(const World& world, const CollectiveSpec& spec, std::uint32_t size_class) {
  if (const Algorithm* forced = forced_algorithm(world.algorithm, spec, world.layout, size_class)) {
    if (!forced->supports(spec, world.layout)) {
      return failed(Code::unsupported,
                    "COLL_ALGORITHM asks for " + std::string(forced->name) + ", which cannot do " +
                        std::string(name_of(spec.collective)) + " with " +
                        std::to_string(spec.ranks) + " ranks",
                    "choose another one or unset it");
    }
    Plan plan = plan_with(world, spec, *forced, size_class);
    plan.forced = true;
    plan.predicted_us = predict(world, plan, most_bytes(size_class)).us;
    return plan;
  }
  const std::vector<Candidate> list = candidates(world, spec, size_class);
  COLL_CHECK(!list.empty(), "every collective has an algorithm for every number of ranks");
  const std::vector<Measured> times = measured(world.tuning, spec, world.layout, size_class);
  const Measured* tuned = better_than_model(times, *list.front().algorithm);
  const auto chosen = std::find_if(list.begin(), list.end(), [&](const Candidate& each) {
    return tuned == nullptr || each.algorithm == tuned->algorithm;
  });
  Plan plan = chosen->plan;
  plan.predicted_us = chosen->prediction.us;
  if (tuned != nullptr) plan.measured_us = tuned->us;
  return plan;
}

std::string explain(const World& world, const Plan& plan, std::uint32_t size_class) {
  char line[256];
  std::string text;
  std::snprintf(
      line, sizeof line,
      "%s of up to %llu bytes over %d rank%s: %s, %u lane%s, slices of %u bytes, predicted "
      "%.2f us%s\n",
      std::string(name_of(plan.spec.collective)).c_str(),
      static_cast<unsigned long long>(std::uint64_t{1} << size_class), plan.spec.ranks,
      plan.spec.ranks == 1 ? "" : "s", std::string(plan.algorithm->name).c_str(), plan.lanes,
      plan.lanes == 1 ? "" : "s", plan.slice_bytes, plan.predicted_us,
      plan.forced ? " (forced by COLL_ALGORITHM)" : "");
  text += line;
  text.append("protocol: messages ").append(text_of(plan.loans)).append("\n");
  text.append("why: ").append(plan.algorithm->sentence).append("\n");
  text += "candidates:";
  const std::vector<Candidate> list = candidates(world, plan.spec, size_class);
  for (const Candidate& candidate : list) {
    const Prediction& prediction = candidate.prediction;
    std::snprintf(line, sizeof line, " %s %.2f us", std::string(candidate.algorithm->name).c_str(),
                  prediction.us);
    text += line;
    if (!prediction.bottleneck.empty()) text.append(" (").append(prediction.bottleneck).append(")");
    text += ';';
  }
  text.back() = '\n';
  return text + explain_tuning(world, plan, size_class, *list.front().algorithm);
}

}  // namespace coll
