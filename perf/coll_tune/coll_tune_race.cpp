// SPDX-License-Identifier: Apache-2.0
// Algorithms against each other in one place.
#include "coll_tune/coll_tune_race.hpp"

#include <algorithm>
#include <cmath>

#include "coll_tune/coll_tune_planning.hpp"

namespace perf {
namespace {

/// A plan with this many times the best prediction is not tried: no model here errs that much.
constexpr double kHopeless = 20;
/// An algorithm that is this many times as slow as the fastest need not be measured as well, and no
/// other cut of it will win.
constexpr double kFarBehind = 1.3;
constexpr std::size_t kRoundsToJudge = 5;

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

coll::Recipe uncut(const coll::Algorithm& algorithm) {
  return {std::string(algorithm.name)};
}

/// The contenders of a race, while they are named: equal plans run once.
class Field {
 public:
  Field(const Planning& planning, Race& race) : planning_(planning), race_(race) {}

  void add(const coll::Recipe& recipe, bool kept) {
    const coll::Plan plan = planning_.forced(recipe);
    const auto same = std::find_if(plans_.begin(), plans_.end(), [&](const coll::Plan& other) {
      return planning_.alike(other, plan);
    });
    if (same == plans_.end()) {
      const double expected = planning_.expected_us(plan);
      race_.contenders.push_back({recipe, {}, expected, kept, false, {}});
      plans_.push_back(plan);
      return;
    }
    Contender& twin = race_.contenders[static_cast<std::size_t>(same - plans_.begin())];
    if (twin.recipe != recipe) twin.same.push_back(recipe);
    twin.kept = twin.kept || kept;
  }

 private:
  const Planning& planning_;
  Race& race_;
  std::vector<coll::Plan> plans_;  ///< of the contenders
};

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

const Contender& Race::of(const coll::Recipe& recipe) const {
  const auto found = std::find_if(contenders.begin(), contenders.end(), [&](const Contender& each) {
    return each.recipe == recipe ||
           std::find(each.same.begin(), each.same.end(), recipe) != each.same.end();
  });
  COLL_CHECK(found != contenders.end(), "what is chosen has been measured");
  return *found;
}

const Contender& Race::fastest() const {
  return *std::min_element(contenders.begin(), contenders.end(),
                           [](const Contender& a, const Contender& b) { return a.us() < b.us(); });
}

double Race::regret(const coll::Recipe& recipe) const {
  return of(recipe).us() / fastest().us() - 1;
}

Race line_up(const coll::World& world, coll::Collective collective, std::uint64_t bytes) {
  const Planning planning(world, collective, bytes);
  Race race;
  race.collective = collective;
  race.bytes = bytes;
  race.by_model = uncut(*planning.untuned().algorithm);
  std::vector<coll::Recipe> able{race.by_model};
  for (const coll::Algorithm& algorithm : coll::algorithms()) {
    if (algorithm.competes(planning.spec(), world.layout)) able.push_back(uncut(algorithm));
  }
  if (!world.tuning.empty()) {
    const coll::Plan plan = planning.tuned();
    race.by_table = planning.recipe_of(plan);
    if (race.by_table->cut != coll::Cut{}) able.push_back(*race.by_table);
  }
  Field field(planning, race);
  for (const coll::Recipe& recipe : able) {
    // A table's choice is compared with its algorithm's own cut, too.
    const bool kept =
        recipe == race.by_model || (race.by_table && recipe.algorithm == race.by_table->algorithm);
    field.add(recipe, kept);
  }
  double best = race.contenders.front().predicted_us;
  for (const Contender& each : race.contenders) best = std::min(best, each.predicted_us);
  std::erase_if(race.contenders, [&](const Contender& each) {
    return !each.kept && each.predicted_us > kHopeless * best;
  });
  return race;
}

Race line_up_cuts(const coll::World& world, const Race& race) {
  const Planning planning(world, race.collective, race.bytes);
  Race cuts;
  cuts.collective = race.collective;
  cuts.bytes = race.bytes;
  cuts.by_model = race.by_model;
  Field field(planning, cuts);
  const Contender& fastest = race.fastest();
  field.add({fastest.recipe.algorithm}, true);
  if (race.of(race.by_model).us() <= kFarBehind * fastest.us()) field.add(race.by_model, true);
  const std::vector<Contender> uncut = cuts.contenders;
  for (const Contender& each : uncut) {
    const std::string& name = each.recipe.algorithm;
    const coll::Cost cost = coll::find_algorithm(name)->cost(planning.spec(), world.layout);
    for (const coll::Cut cut : coll::sensible_cuts(world, cost, planning.size_class())) {
      const coll::Recipe recipe{name, cut};
      if (recipe != race.by_table) field.add(recipe, false);
    }
  }
  if (cuts.contenders.size() == uncut.size()) cuts.contenders.clear();
  return cuts;
}

/// The uncut algorithm runs in both races. If it took this many times as long in the second, ranks
/// that share cores had another rhythm, or other work ran: its cuts look fast, but are not.
constexpr double kOtherRhythm = 1.3;

void join(Race& race, const Race& cuts) {
  for (const Contender& each : cuts.contenders) {
    if (each.recipe.cut == coll::Cut{}) continue;
    const coll::Recipe uncut{each.recipe.algorithm};
    const double us = race.of(uncut).us();
    if (cuts.of(uncut).us() > kOtherRhythm * us) continue;
    const std::vector<double>& beside = cuts.of(uncut).rounds;  // it is kept: no fewer
    Contender& joined = race.contenders.emplace_back(each);
    for (std::size_t i = 0; i < joined.rounds.size(); ++i)
      joined.rounds[i] *= us / beside[std::min(i, beside.size() - 1)];
  }
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
    if (each.out && each.recipe.cut != coll::Cut{}) continue;
    const double us = rounded(each.us()),
                 noise_us = rounded(std::max(each.noise_us(), kLeastNoise * us));
    point.timings.push_back({each.recipe, us, noise_us});
    for (const coll::Recipe& twin : each.same) point.timings.push_back({twin, us, noise_us});
  }
  std::stable_sort(point.timings.begin(), point.timings.end(),
                   [](const coll::Timing& a, const coll::Timing& b) { return a.us < b.us; });
  return point;
}

}  // namespace perf
