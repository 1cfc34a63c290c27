// SPDX-License-Identifier: Apache-2.0
// What coll-tune shows: tables, and the planner's regret.
#pragma once
#include <string>
#include <vector>

#include "coll_tune/coll_tune_race.hpp"

namespace perf {

/// A tuning table for a person: for each world, operation and size all times, fastest first.
std::string to_text(const coll::TuningTable& table);

/// How good choices were, over some races.
struct Regret {
  std::size_t races = 0;
  double median = 0, worst = 0;  ///< of the choices; 0.1: ten percent slower than the fastest
  double error_median = 1, error_worst = 1;  ///< predicted over measured time, or its reciprocal
  double within = 1;                         ///< share of predictions that are within 25 %
};
/// The regret of plans without a tuning table, or with the table that exists.
Regret regret_of(const std::vector<Race>& races, bool with_table);

/// Each race, then each operation and all of them.
std::string regret_text(const std::vector<Race>& races, const std::string& world,
                        const std::string& table);
std::string regret_json(const std::vector<Race>& races, const coll::TuningScope& world,
                        const std::string& table);
/// Regret over size as SVG, an operation a line.
std::string regret_svg(const std::vector<Race>& races, const std::string& world);

}  // namespace perf
