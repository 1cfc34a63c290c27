// SPDX-License-Identifier: Apache-2.0
// How coll-tune makes a table: it measures, races again what the table would change, fits the
// model, and races what that changes.
#pragma once
#include <string>
#include <vector>

#include "coll_tune/coll_tune_measure.hpp"

namespace perf {

/// One rank's part; all ranks call the same. Rank 0 tells on standard error how it goes.
class Tuner {
 public:
  /// Refers to what it is given.
  Tuner(const Session& session, const Options& options, const Tuning& tuning);

  /// Measures and makes nothing of it.
  std::vector<Race> races();
  /// A table for this world, together with what the file at `old` has for others of this machine.
  /// Rank 0's counts.
  coll::TuningTable make_table(const std::string& topology, const std::string& old,
                               const std::string& date);

  [[nodiscard]] bool leader() const { return leader_; }
  [[nodiscard]] std::size_t points() const { return points_; }  ///< that were measured
  [[nodiscard]] const coll::World& world() const { return world_; }
  [[nodiscard]] const coll::TuningScope& scope() const { return scope_; }

 private:
  std::vector<Race> races(double part);
  std::vector<Duel> duels(const coll::TuningTable& before, const coll::TuningTable& after,
                          double part);
  void judge_points(coll::TuningTable& table);
  void judge_model(coll::TuningTable& table);
  void share(coll::TuningTable& table) const;
  [[nodiscard]] Progress shown_to_person() const;
  void clear_line() const;

  const Session& session_;
  const Options& options_;
  const Tuning& tuning_;
  const coll::World& world_;
  coll::TuningScope scope_;
  std::size_t points_ = 0;
  bool leader_, person_;
};

}  // namespace perf
