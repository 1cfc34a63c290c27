// SPDX-License-Identifier: Apache-2.0
// perf/: tools that measure the library. This file: algorithms against each other in one place:
// what coll-tune measured of them, and what follows from it.
#pragma once
#include <string>
#include <vector>

#include "planner/planner.hpp"

namespace perf {

double median(std::vector<double> values);  ///< 0 of none
/// Half the range that the middle half of the values lies in.
double noise(std::vector<double> values);

/// One algorithm for one operation and size, and those whose schedules are the same there: nothing
/// but noise could tell them apart.
struct Contender {
  const coll::Algorithm* algorithm = nullptr;
  std::vector<const coll::Algorithm*> same;
  double predicted_us = 0;     ///< of one of many calls in a row, as they are measured
  bool kept = false;           ///< measured to the end, however slow: some planner would choose it
  bool out = false;            ///< of the rounds still to come
  std::vector<double> rounds;  ///< us of a call, the slowest rank's mean in each round
  [[nodiscard]] double us() const { return median(rounds); }
  [[nodiscard]] double noise_us() const { return noise(rounds); }
};

/// Those that measured in turns.
struct Race {
  coll::Collective collective = coll::Collective::barrier;
  std::uint64_t bytes = 0;
  std::vector<Contender> contenders;
  const coll::Algorithm* by_model = nullptr;  ///< what is planned without a tuning table
  const coll::Algorithm* by_table = nullptr;  ///< and with the one there is; null: there is none

  /// The one that ran for it.
  [[nodiscard]] const Contender& of(const coll::Algorithm* algorithm) const;
  [[nodiscard]] const Contender& fastest() const;
  /// What planning that algorithm costs: its time over the fastest's, less 1.
  [[nodiscard]] double regret(const coll::Algorithm* algorithm) const;
};

/// Who may run: all that can, but those whose prediction is hopeless.
Race line_up(const coll::World& world, coll::Collective collective, std::uint64_t bytes);

/// After a round: those that are behind by far more than the noise are out.
void drop_hopeless(Race& race);
/// Is the fastest apart from all others by more than the noise?
bool is_decided(const Race& race);

coll::TuningPoint to_point(const Race& race, const coll::TuningScope& scope,
                           const std::string& date);

}  // namespace perf
