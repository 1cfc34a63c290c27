// SPDX-License-Identifier: Apache-2.0
// Fits the constants of the cost model to measured times.
#pragma once
#include <vector>

#include "planner/planner.hpp"

namespace perf {

/// A plan that was measured, in its world.
struct TimedPlan {
  coll::World world;
  coll::Plan plan;
  double bytes = 0;  ///< size of a rank's larger buffer
  double us = 0;     ///< of one of many calls in a row
};

/// What a table's points say of worlds like `like`: its transport, on one machine, with any number
/// of ranks. Of each point the three fastest algorithms with the planner's cut.
std::vector<TimedPlan> timed_plans(const coll::TuningTable& table, const coll::World& like);

/// How far predictions with a model are from measured times.
struct ModelQuality {
  double mean_log = 0;  ///< mean of |ln(predicted / measured)|
  double error = 1;     ///< median of predicted / measured or its reciprocal
  double within = 1;    ///< share of predictions within 25 %: predicted / measured 0.8 to 1.25
};
ModelQuality quality_of(const coll::CostConstants& costs, const std::vector<TimedPlan>& times);
/// The same of what the plans' own worlds expect: their model, scaled by what was measured there.
ModelQuality expected_quality(const std::vector<TimedPlan>& times);

/// A fit, and how good it is beside what is predicted without one.
struct ModelFit {
  coll::CostConstants costs;
  ModelQuality before, after;
  std::size_t times = 0;  ///< that were predicted
  /// Whether the fit is better by more than chance: its mean error is smaller by a tenth, and there
  /// are more times than constants.
  [[nodiscard]] bool better() const {
    return times >= 40 && after.mean_log < 0.9 * before.mean_log;
  }
};

/// Changes the constants that predictions of these plans depend on, one after another by ever
/// smaller factors, as long as the mean error falls (coordinate search over logarithms). All other
/// constants stay. Deterministic. Takes some seconds for hundreds of times.
ModelFit fit(const coll::CostConstants& start, const std::vector<TimedPlan>& times);

/// The constants of a model as they are on this machine, to begin a fit with.
coll::CostConstants on_this_machine(const coll::CostConstants& costs,
                                    const coll::ProbeCost& measured);

/// `from` with a fit in it: where and when it was made, and from how many times.
coll::CostModel fitted_model(const ModelFit& fit, const coll::CostModel& from,
                             const coll::World& world, const std::string& machine,
                             const std::string& date);

}  // namespace perf
