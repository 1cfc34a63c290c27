// SPDX-License-Identifier: Apache-2.0
// Fits the constants of the cost model to measured times.
#include "coll_tune/coll_tune_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>

#include "coll_tune/coll_tune_race.hpp"

namespace perf {
namespace {

constexpr std::size_t kOfEachPoint = 3;  ///< more would fit the model to plans that nobody chooses
/// A constant is tried larger and smaller by these factors, in turn.
constexpr double kFactors[] = {2, 1.4, 1.2, 1.1, 1.05};
constexpr int kPasses = 3;  ///< over all constants with each factor, at most
constexpr double kNear = 1.25;
constexpr double kLeastUs = 1e-6;  ///< a prediction of 0 has no logarithm

/// The constants that a fit may change, by group.
constexpr std::string_view kOfPath[] = {"alpha_us",
                                        "step_us",
                                        "send_us",
                                        "send_us_per_byte",
                                        "receive_us_per_byte",
                                        "slowdown",
                                        "line_us",
                                        "long_us",
                                        "page_us_per_byte",
                                        "fetch_us",
                                        "fetch_us_per_byte",
                                        "fetch_cold_us_per_byte"};
/// Of these, both parts of the time to fetch a byte.
constexpr std::string_view kOfFetches[] = {"fetch_us_per_byte", "fetch_cold_us_per_byte"};
constexpr std::string_view kOfCopy[] = {"us_per_byte", "slowdown"};
constexpr std::string_view kOfCache[] = {"own_bytes", "slot_bytes", "cold_slots"};
constexpr std::string_view kOfSharing[] = {"hand_over_us", "crowded_fetch", "crowded_copy"};

/// What ranks measure that scales constants of these groups (measured_costs.hpp), by path.
constexpr std::string_view kScalesMemory[] = {
    "copy_us_per_byte", "fetch_us", "fetch_us_per_byte", "line_us", "pass_us_per_byte", "chain_us"};
constexpr std::string_view kScalesKernel[] = {"copy_us_per_byte", "chain_us", "send_us"};

std::string_view path_of(const coll::World& world) {
  if (world.view.path == &coll::CostConstants::memory) return "memory";
  if (world.view.path == &coll::CostConstants::rdma) return "rdma";
  return world.view.path == &coll::CostConstants::kernel ? "kernel" : "network";
}

std::span<const std::string_view> fitted_names(std::string_view group, std::string_view path) {
  if (group == path) return kOfPath;
  if (path != "memory") return {};  // there are better ways to measure these
  if (group == "copy") return kOfCopy;
  if (group == "cache") return kOfCache;
  if (group == "sharing") return kOfSharing;
  return {};
}

bool scales_fitted(std::string_view probe, std::string_view path) {
  std::span<const std::string_view> names;
  if (path == "memory") names = kScalesMemory;
  if (path == "kernel") names = kScalesKernel;
  return std::ranges::find(names, probe) != names.end();
}

/// Constants that are changed by one factor.
using Together = std::vector<coll::CostConstant>;

/// Those that times of this path can tell: each alone, but fetches also as a whole, because a step
/// of one of their two constants must not undo what the other one fits.
std::vector<Together> fitted_constants(std::string_view path) {
  std::vector<Together> list;
  Together fetches;
  for (const coll::CostGroup& group : coll::cost_groups()) {
    const auto names = fitted_names(group.name, path);
    for (const coll::CostConstant& constant : group.constants) {
      if (std::ranges::find(names, constant.name) == names.end()) continue;
      list.push_back({constant});
      if (std::ranges::find(kOfFetches, constant.name) != std::end(kOfFetches))
        fetches.push_back(constant);
    }
  }
  if (!fetches.empty()) list.insert(list.begin(), fetches);
  return list;
}

/// The world of `scope` on this machine, made from one that differs in its number of ranks only.
std::optional<coll::World> world_of_scope(const coll::TuningScope& scope, const coll::World& like) {
  const coll::TuningScope own =
      coll::scope_of(like.layout, like.shared_memory, like.view.ranks_per_core);
  if (scope == own) return like;
  const bool one_machine = like.view.cores.size() <= 1;
  if (scope.transport != own.transport || scope.ranks < 2 || !one_machine) return std::nullopt;
  std::vector<coll::Place> places(static_cast<std::size_t>(scope.ranks));
  if (like.layout.hosts() > 1) {
    for (std::size_t rank = 0; rank < places.size(); ++rank)
      places[rank].host = static_cast<std::int64_t>(rank);
  }
  coll::World world = like;
  world.layout = coll::make_layout(places);
  world.view.ranks_per_core = std::max(1.0, scope.ranks_per_core);
  if (coll::scope_of(world.layout, like.shared_memory, world.view.ranks_per_core) != scope)
    return std::nullopt;
  return world;
}

double predicted_us(const coll::CostConstants& costs, const TimedPlan& of) {
  return predict(of.world, costs, of.plan, of.bytes).each_us;
}

double mean_log(const coll::CostConstants& costs, const std::vector<TimedPlan>& times) {
  double sum = 0;
  for (const TimedPlan& each : times)
    sum += std::abs(std::log(std::max(predicted_us(costs, each), kLeastUs) / each.us));
  return sum / static_cast<double>(times.size());
}

/// Changes constants until nothing is better or the time is over.
class Search {
 public:
  Search(const coll::CostConstants& start, std::string_view path)
      : costs_(start), constants_(fitted_constants(path)) {}

  void run(const std::vector<TimedPlan>& times, double most_seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(most_seconds);
    double least = mean_log(costs_, times);
    for (const double factor : kFactors) {
      bool changed = true;
      for (int pass = 0; pass < kPasses && changed; ++pass) {
        changed = false;
        for (const Together& constants : constants_) {
          out_of_time_ = Clock::now() >= end;
          if (out_of_time_) return;
          if (change(constants, factor, times, least)) changed = true;
        }
      }
    }
  }

  [[nodiscard]] const coll::CostConstants& costs() const { return costs_; }
  [[nodiscard]] bool out_of_time() const { return out_of_time_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// Keeps what makes the error less than `least`.
  bool change(const Together& constants, double factor, const std::vector<TimedPlan>& times,
              double& least) {
    for (const double times_as_much : {factor, 1 / factor}) {
      coll::CostConstants tried = costs_;
      for (const coll::CostConstant& each : constants)
        each.of(tried) = std::clamp(each.of(tried) * times_as_much, each.least, each.most);
      if (tried == costs_) continue;
      const double error = mean_log(tried, times);
      if (error >= least) continue;
      least = error;
      costs_ = tried;
      return true;
    }
    return false;
  }

  coll::CostConstants costs_;
  std::vector<Together> constants_;
  bool out_of_time_ = false;
};

/// The quality from the ratios of predictions to measured times.
ModelQuality quality(const std::vector<double>& ratios) {
  if (ratios.empty()) return {};
  std::vector<double> errors;
  double sum = 0;
  for (const double ratio : ratios) {
    errors.push_back(std::max(ratio, 1 / ratio));
    sum += std::log(errors.back());
  }
  const auto near = std::ranges::count_if(errors, [](double error) { return error <= kNear; });
  const auto count = static_cast<double>(errors.size());
  return {.mean_log = sum / count,
          .error = median(errors),
          .within = static_cast<double>(near) / count};
}

}  // namespace

std::vector<TimedPlan> timed_plans(const coll::TuningTable& table, const coll::World& like) {
  std::vector<TimedPlan> plans;
  for (const coll::TuningPoint& point : table.points) {
    const auto smaller = std::ranges::count_if(table.points, [&](const coll::TuningPoint& each) {
      return each.collective == point.collective && each.scope == point.scope &&
             each.bytes < point.bytes;
    });
    std::optional<coll::World> world = world_of_scope(point.scope, like);
    if (!world) continue;
    world->tuning.clear();
    std::vector<coll::Timing> timings = point.timings;
    std::erase_if(timings, [](const coll::Timing& each) {
      return each.recipe.cut != coll::Cut{} ||
             coll::find_algorithm(each.recipe.algorithm) == nullptr;
    });
    std::ranges::stable_sort(timings, {}, &coll::Timing::us);
    if (timings.size() > kOfEachPoint) timings.resize(kOfEachPoint);
    const coll::CollectiveSpec spec{point.collective, world->layout.ranks(), 0};
    for (const coll::Timing& timing : timings) {
      coll::World forced = *world;
      forced.algorithm = timing.recipe.text();
      const auto plan = make_plan(forced, {spec, coll::size_class(point.bytes)});
      if (plan.ok() && point.bytes > 0)
        plans.push_back(
            {*world, *plan, static_cast<double>(point.bytes), timing.us, smaller % 2 == 0});
    }
  }
  return plans;
}

ModelQuality quality_of(const coll::CostConstants& costs, const std::vector<TimedPlan>& times) {
  std::vector<double> ratios;
  for (const TimedPlan& each : times)
    ratios.push_back(std::max(predicted_us(costs, each), kLeastUs) / each.us);
  return quality(ratios);
}

ModelQuality expected_quality(const coll::CostConstants& model,
                              const std::vector<TimedPlan>& times) {
  std::vector<double> ratios;
  for (const TimedPlan& each : times) {
    const coll::CostView& view = each.world.view;
    const auto costs = measured_costs(model, view.measured, view.ranks_per_core);
    ratios.push_back(std::max(predicted_us(costs, each), kLeastUs) / each.us);
  }
  return quality(ratios);
}

ModelFit fit(const coll::CostConstants& start, const std::vector<TimedPlan>& times,
             double most_seconds) {
  ModelFit result{.costs = start, .before = {}, .after = {}, .times = times.size()};
  std::vector<TimedPlan> seen, unseen;
  for (const TimedPlan& each : times) (each.fitted_first ? seen : unseen).push_back(each);
  result.before = expected_quality(coll::default_cost_model()->constants, unseen);
  if (seen.empty() || unseen.empty()) return result;
  Search search(start, path_of(times.front().world));
  search.run(seen, most_seconds / 2);
  result.after = quality_of(search.costs(), unseen);
  result.out_of_time = search.out_of_time();
  if (result.better()) {
    search.run(times, most_seconds / 2);
    result.out_of_time |= search.out_of_time();
  }
  result.costs = search.costs();
  return result;
}

coll::CostConstants on_this_machine(const coll::CostConstants& costs, const coll::World& world) {
  coll::CostConstants here = measured_costs(costs, world.view.measured, 1);
  coll::CostConstants now;
  now.probe = world.view.measured;
  for (const coll::CostGroup& group : coll::cost_groups()) {
    if (group.name != "probe") continue;
    for (const coll::CostConstant& constant : group.constants) {
      const double value = constant.of(now);
      if (value > 0 && std::isfinite(value))
        constant.of(here) = std::min(value, constant.most);
      else if (scales_fitted(constant.name, path_of(world)))
        constant.of(here) = 0;
    }
  }
  return here;
}

bool is_outdated(const coll::CostModel& model, const std::vector<TimedPlan>& times) {
  if (times.size() < kLeastTimes) return false;
  const coll::CostModel& usual = *coll::default_cost_model();
  for (std::size_t i = 0; i < coll::kCostGroups; ++i) {
    const bool of_path = coll::cost_groups()[i].name == path_of(times.front().world);
    if (of_path && model.measured[i] == usual.measured[i]) return false;  // of another path
  }
  return expected_quality(model.constants, times).mean_log >
         expected_quality(usual.constants, times).mean_log;
}

coll::CostModel fitted_model(const ModelFit& fit, const coll::CostModel& from,
                             const coll::World& world, const std::string& machine,
                             const std::string& date) {
  coll::CostModel model = from;
  model.name = "fitted";
  model.machine = machine;
  model.date = date;
  model.constants = fit.costs;
  const std::string source = fmt::format(
      "fitted to {} times over {} by coll-tune, {}: off by {:.2f} in the median, {:.0f} % "
      "within 25 %, where every other size was fitted and the rest predicted",
      fit.times, path_of(world), date, fit.after.error, 100 * fit.after.within);
  for (std::size_t i = 0; i < coll::kCostGroups; ++i) {
    const std::string_view group = coll::cost_groups()[i].name;
    if (!fitted_names(group, path_of(world)).empty()) model.measured[i] = source;
    if (group == "probe") model.measured[i] = "measured beside the fit, " + date;
  }
  return model;
}

}  // namespace perf
