// SPDX-License-Identifier: Apache-2.0
// perf/: tools that measure the library. This file: algorithms against each other in one place.
#include "coll_tune_race.hpp"

#include <algorithm>
#include <cmath>

namespace perf {
namespace {

/// A prediction so many times the best one is not tried: no model here errs that much.
constexpr double kHopeless = 20;
/// Behind by so much, an algorithm need not be measured as well as those in front.
constexpr double kFarBehind = 1.3;
constexpr std::size_t kRoundsToJudge = 5;
/// Rounds may agree better than runs do: what is nearer than this is no difference.
constexpr double kLeastNoise = 0.01;

/// To four digits: more would be noise, and longer to read and to send.
double rounded(double value) {
  if (!(value > 0)) return 0;
  const double unit = std::pow(10.0, 3 - std::floor(std::log10(value)));
  return std::round(value * unit) / unit;
}

double quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// Do two plans run the same, whatever their algorithms are called? Of many ranks, some are asked.
bool run_alike(const coll::World& world, const coll::Plan& a, const coll::Plan& b) {
  if (a.lanes != b.lanes || a.slice_bytes != b.slice_bytes || a.loans != b.loans ||
      a.message_chunks != b.message_chunks)
    return false;
  const coll::Rank ranks = a.spec.ranks, stride = std::max(1, ranks / 16);
  for (coll::Rank rank = 0; rank < ranks; rank += stride) {
    const coll::Schedule one = a.algorithm->build(a.spec, world.layout, rank);
    coll::Schedule other = b.algorithm->build(b.spec, world.layout, rank);
    other.algorithm = one.algorithm;
    if (one != other) return false;
  }
  return true;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

double noise(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (quantile(values, 0.75) - quantile(values, 0.25)) / 2;
}

const Contender& Race::of(const coll::Algorithm* algorithm) const {
  const auto found = std::find_if(contenders.begin(), contenders.end(), [&](const Contender& each) {
    return each.algorithm == algorithm ||
           std::find(each.same.begin(), each.same.end(), algorithm) != each.same.end();
  });
  COLL_CHECK(found != contenders.end(), "what is chosen has been measured");
  return *found;
}

const Contender& Race::fastest() const {
  return *std::min_element(contenders.begin(), contenders.end(),
                           [](const Contender& a, const Contender& b) { return a.us() < b.us(); });
}

double Race::regret(const coll::Algorithm* algorithm) const {
  return of(algorithm).us() / fastest().us() - 1;
}

Race line_up(const coll::World& world, coll::Collective collective, std::uint64_t bytes) {
  Race race;
  race.collective = collective;
  race.bytes = bytes;
  const coll::CollectiveSpec spec{collective, world.layout.ranks(), 0};
  const std::uint32_t size = coll::size_class(bytes);
  coll::World plain = world;
  plain.algorithm.clear();
  coll::World untuned = plain;
  untuned.tuning.clear();
  const auto plan_by = [&](const coll::World& with) {
    const coll::Result<coll::Plan> plan = make_plan(with, spec, size);
    COLL_CHECK(plan.ok(), "nobody is forced to what it cannot");
    return *plan;
  };
  race.by_model = plan_by(untuned).algorithm;
  if (!plain.tuning.empty()) race.by_table = plan_by(plain).algorithm;

  std::vector<const coll::Algorithm*> able{race.by_model};
  for (const coll::Algorithm& algorithm : coll::algorithms()) {
    if (&algorithm != race.by_model && algorithm.supports(spec, world.layout))
      able.push_back(&algorithm);
  }
  std::vector<coll::Plan> plans;  // of the contenders
  double best = 0;
  for (const coll::Algorithm* algorithm : able) {
    coll::World forced = untuned;
    forced.algorithm = algorithm->name;
    const coll::Plan plan = plan_by(forced);
    const bool kept = algorithm == race.by_model || algorithm == race.by_table;
    const auto same = std::find_if(plans.begin(), plans.end(), [&](const coll::Plan& other) {
      return run_alike(world, other, plan);
    });
    if (same != plans.end()) {
      Contender& twin = race.contenders[static_cast<std::size_t>(same - plans.begin())];
      twin.same.push_back(algorithm);
      twin.kept = twin.kept || kept;
      continue;
    }
    plans.push_back(plan);
    race.contenders.push_back({algorithm, {}, plan.predicted_each_us, kept, false, {}});
    best = best == 0 ? plan.predicted_each_us : std::min(best, plan.predicted_each_us);
  }
  std::erase_if(race.contenders, [&](const Contender& each) {
    return !each.kept && each.predicted_us > kHopeless * best;
  });
  return race;
}

void drop_hopeless(Race& race) {
  const Contender& best = race.fastest();
  if (best.rounds.size() < kRoundsToJudge) return;
  const double line = std::max(kFarBehind * best.us(), best.us() + best.noise_us());
  for (Contender& each : race.contenders) {
    if (!each.kept && each.us() - each.noise_us() > line) each.out = true;
  }
}

bool is_decided(const Race& race) {
  const Contender& best = race.fastest();
  return std::all_of(race.contenders.begin(), race.contenders.end(), [&](const Contender& each) {
    return &each == &best ||
           coll::are_apart(each.us(), each.noise_us(), best.us(), best.noise_us());
  });
}

coll::TuningPoint to_point(const Race& race, const coll::TuningScope& scope,
                           const std::string& date) {
  coll::TuningPoint point{race.collective, race.bytes, scope, date, {}};
  for (const Contender& each : race.contenders) {
    const double us = rounded(each.us()),
                 noise_us = rounded(std::max(each.noise_us(), kLeastNoise * us));
    point.timings.push_back({std::string(each.algorithm->name), us, noise_us});
    for (const coll::Algorithm* twin : each.same)
      point.timings.push_back({std::string(twin->name), us, noise_us});
  }
  std::stable_sort(point.timings.begin(), point.timings.end(),
                   [](const coll::Timing& a, const coll::Timing& b) { return a.us < b.us; });
  return point;
}

}  // namespace perf
