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
  double bytes = 0;           ///< size of a rank's larger buffer
  double us = 0;              ///< of one of many calls in a row
  bool fitted_first = false;  ///< every other size of an operation in a world; the rest judges
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
/// The quality of constants that are this machine's already.
ModelQuality quality_of(const coll::CostConstants& costs, const std::vector<TimedPlan>& times);
/// The quality of a model's constants, scaled by what was measured in the plans' worlds.
ModelQuality expected_quality(const coll::CostConstants& model,
                              const std::vector<TimedPlan>& times);

/// Fewer times fit no model: half of them must not be fewer than the constants.
inline constexpr std::size_t kLeastTimes = 40;
/// A fit to times of few ranks takes some seconds; simulations of many ranks take longer.
inline constexpr double kMostFitSeconds = 30;

/// A fit, and how good it is beside the default model.
struct ModelFit {
  coll::CostConstants costs;  ///< where the fit is no better, those of the half that it saw
  /// The quality on the half that was not fitted at first: with the default model, and after a fit
  /// to the other half.
  ModelQuality before, after;
  std::size_t times = 0;     ///< of both halves
  bool out_of_time = false;  ///< there was more to try
  /// Whether the fit is better by more than chance: the mean error of what it has not seen is
  /// smaller by a tenth.
  [[nodiscard]] bool better() const {
    return times >= kLeastTimes && after.mean_log < 0.9 * before.mean_log;
  }
};

/// Changes the constants that predictions of these plans depend on, one after another by ever
/// smaller factors, as long as the mean error falls (coordinate search over logarithms). All other
/// constants stay. Fits the times that are `fitted_first`, judges by the rest, and if that is
/// better goes on with all. Deterministic unless it runs out of time.
ModelFit fit(const coll::CostConstants& start, const std::vector<TimedPlan>& times,
             double most_seconds = kMostFitSeconds);

/// The constants of a model as they are on this machine, to begin a fit over the world's path with.
/// Their `probe` is what was measured here. What was not measured and scales constants that are
/// fitted becomes unknown: a later measurement must not scale what the fit has found.
coll::CostConstants on_this_machine(const coll::CostConstants& costs, const coll::World& world);

/// Whether a model that was fitted over the path of these times predicts them worse than the
/// default model.
bool is_outdated(const coll::CostModel& model, const std::vector<TimedPlan>& times);

/// `from` with a fit in it: where and when it was made, and from how many times.
coll::CostModel fitted_model(const ModelFit& fit, const coll::CostModel& from,
                             const coll::World& world, const std::string& machine,
                             const std::string& date);

}  // namespace perf
