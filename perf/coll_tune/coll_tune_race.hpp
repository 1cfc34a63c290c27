// SPDX-License-Identifier: Apache-2.0
// Algorithms, and cuts of their calls, against each other in one place: what coll-tune measured of
// them, and what follows from it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "planner/planner.hpp"

namespace perf {

double median(std::vector<double> values);  ///< 0 of none
/// Half the range that the middle half of the values lies in.
double noise(std::vector<double> values);
/// Rounds may agree better than runs do: what is nearer than this, relatively, is no difference.
constexpr double kLeastNoise = 0.01;

/// One recipe for one operation and size, and those whose schedules are the same there: nothing but
/// noise could tell them apart.
struct Contender {
  coll::Recipe recipe;
  std::vector<coll::Recipe> same;
  double predicted_us = 0;     ///< of one of many calls in a row, as they are measured
  bool kept = false;           ///< measured to the end, however slow: some planner would choose it
  bool out = false;            ///< of the rounds still to come
  std::vector<double> rounds;  ///< us of a call, the slowest rank's mean in each round
  [[nodiscard]] double us() const { return median(rounds); }
  [[nodiscard]] double noise_us() const { return noise(rounds); }
};

/// The contenders that are measured in turns.
struct Race {
  coll::Collective collective = coll::Collective::barrier;
  std::uint64_t bytes = 0;
  std::vector<Contender> contenders;
  coll::Recipe by_model;                 ///< what is planned without a tuning table
  std::optional<coll::Recipe> by_table;  ///< and with the one there is, if there is one

  /// The one that ran for it.
  [[nodiscard]] const Contender& of(const coll::Recipe& recipe) const;
  [[nodiscard]] const Contender& fastest() const;
  /// What planning so costs: its time over the fastest's, less 1.
  [[nodiscard]] double regret(const coll::Recipe& recipe) const;
};

/// Who may run: all algorithms that can, cut as the planner does, but those whose prediction is
/// hopeless; and what a table would choose.
Race line_up(const coll::World& world, coll::Collective collective, std::uint64_t bytes);

/// The race behind that one: the fastest algorithm once more, the model's choice if it is not far
/// behind, and with them all their sensible cuts that ran not yet and make other plans. Without
/// contenders where there are no such cuts.
Race line_up_cuts(const coll::World& world, const Race& race);
/// Takes over what that one showed of cuts: how they did against the uncut algorithm, round by
/// round, times what that took in the first race; nothing where that was far slower by then.
void join(Race& race, const Race& cuts);

/// After a round: those that are behind by far more than the noise are out.
void drop_hopeless(Race& race);
/// Is the fastest apart from all others by more than the noise?
bool is_decided(const Race& race);

/// All times, except those of cuts that dropped out. Cuts that did not win count: between two sizes
/// the planner takes what both have timed, and the planner decides what is more than noise.
coll::TuningPoint to_point(const Race& race, const coll::TuningScope& scope,
                           const std::string& date);

}  // namespace perf
