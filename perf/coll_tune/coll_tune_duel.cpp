// SPDX-License-Identifier: Apache-2.0
// Who won between two tables.
#include "coll_tune/coll_tune_duel.hpp"

#include <algorithm>
#include <cmath>

#include "coll_tune/coll_tune_planning.hpp"

namespace perf {
namespace {

/// Slower by no more than this is bearable in a single call if all others gain.
constexpr double kBearable = 0.1;

std::vector<double> all_of(const std::vector<std::vector<double>>& heats) {
  std::vector<double> all;
  for (const std::vector<double>& heat : heats) all.insert(all.end(), heat.begin(), heat.end());
  return all;
}

double noise_of(const std::vector<double>& ratios) {
  return std::max(noise(ratios), kLeastNoise);
}

}  // namespace

double Duel::ratio() const {
  return median(all_of(ratios));
}

bool Duel::won() const {
  const bool nowhere_slower = std::ranges::all_of(
      ratios, [](const std::vector<double>& heat) { return median(heat) <= 1 + noise_of(heat); });
  return nowhere_slower && ratio() < 1 - noise_of(all_of(ratios));
}

std::optional<Duel> line_up_duel(const coll::World& before, const coll::World& after,
                                 coll::Collective collective, std::uint64_t bytes) {
  const Planning old(before, collective, bytes), young(after, collective, bytes);
  const coll::Plan plan_before = old.tuned(), plan_after = young.tuned();
  if (old.alike(plan_before, plan_after)) return std::nullopt;
  return Duel{collective, bytes, old.recipe_of(plan_before), young.recipe_of(plan_after)};
}

void take_back(const Duel& duel, coll::TuningPoint& point) {
  std::vector<coll::Timing>& timings = point.timings;
  auto kept = std::ranges::find(timings, duel.before, &coll::Timing::recipe);
  if (kept == timings.end()) {
    const double us = median(duel.before_us);
    timings.push_back({duel.before, us, std::max(noise(duel.before_us), kLeastNoise * us)});
    kept = std::prev(timings.end());
  }
  const coll::Timing before = *kept;
  std::erase_if(timings, [&](const coll::Timing& each) {
    return each.recipe != before.recipe && each.us <= before.us;
  });
  std::ranges::stable_sort(timings, {}, &coll::Timing::us);
}

bool is_gain(const std::vector<Duel>& duels) {
  double sum = 0;
  for (const Duel& each : duels) {
    const double ratio = each.ratio();
    if (ratio > 1 + std::max(kBearable, noise_of(all_of(each.ratios)))) return false;
    sum += std::log(ratio);
  }
  return duels.empty() || sum < 0;
}

}  // namespace perf
