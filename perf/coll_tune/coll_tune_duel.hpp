// SPDX-License-Identifier: Apache-2.0
// What a new tuning table changes, against what was planned before it: a change that does not show
// its gain again is taken back.
#pragma once
#include <optional>
#include <vector>

#include "coll_tune/coll_tune_race.hpp"

namespace perf {

/// A call that is planned otherwise after a change of the table.
struct Duel {
  coll::Collective collective = coll::Collective::barrier;
  std::uint64_t bytes = 0;
  coll::Recipe before, after;
  /// The call's time after over that before, round by round, of each heat: at another time, with
  /// communicators of its own.
  std::vector<std::vector<double>> ratios = {};
  std::vector<double> before_us = {};  ///< of all rounds

  [[nodiscard]] double ratio() const;  ///< the median over all rounds
  /// Faster by more than the noise over all rounds, and in no heat slower by more than the noise:
  /// what is faster only while cores lie near each other, or only while they lie far, is no gain.
  [[nodiscard]] bool won() const;
};

/// The duel of two worlds that differ in their tables, if they plan this call differently.
std::optional<Duel> line_up_duel(const coll::World& before, const coll::World& after,
                                 coll::Collective collective, std::uint64_t bytes);

/// Makes a table's point for this duel, which was lost, choose what was chosen before: what seemed
/// faster is removed.
void take_back(const Duel& duel, coll::TuningPoint& point);

/// Whether a model that led to these duels makes calls faster as a whole (geometric mean), and none
/// slower by more than the noise and a tenth. Without duels it changes no call that was measured.
bool is_gain(const std::vector<Duel>& duels);

}  // namespace perf
