// SPDX-License-Identifier: Apache-2.0
// What was measured of algorithms and cuts, and what it says of a call.
#include "planner/tuning_table.hpp"

#include <cmath>
#include <cstdio>
#include <limits>
#include <tuple>

#include "planner/planner.hpp"

namespace coll {
namespace {

/// A point also speaks for sizes that are up to this many classes larger or smaller.
constexpr std::uint32_t kReach = 2;
/// Even if times are noisy, the model's choice may not be slower than the fastest by more than
/// this.
constexpr double kMostDoubt = 0.1;

double in_hundredths(double value) {
  return std::round(value * 100) / 100;
}

const Timing* timing_of(const TuningPoint& point, const Recipe& recipe) {
  for (const Timing& timing : point.timings) {
    if (timing.recipe == recipe) return &timing;
  }
  return nullptr;
}

/// The nearest points on both sides of a class, the same one twice where it is of this class.
struct Neighbours {
  const TuningPoint* below = nullptr;
  const TuningPoint* above = nullptr;
};

Neighbours neighbours(const std::vector<TuningPoint>& points, Collective collective,
                      std::uint32_t size) {
  Neighbours found;
  for (const TuningPoint& point : points) {
    if (point.collective != collective || point.timings.empty()) continue;
    const std::uint32_t at = size_class(point.bytes);
    if (at <= size && size - at <= kReach &&
        (found.below == nullptr || point.bytes > found.below->bytes)) {
      found.below = &point;
    }
    if (at >= size && at - size <= kReach &&
        (found.above == nullptr || point.bytes < found.above->bytes)) {
      found.above = &point;
    }
  }
  if (found.below == nullptr) found.below = found.above;
  if (found.above == nullptr) found.above = found.below;
  return found;
}

}  // namespace

bool TuningScope::holds_in(const TuningScope& world) const {
  return (ranks == 0 || ranks == world.ranks) && (hosts.empty() || hosts == world.hosts) &&
         (transport.empty() || transport == world.transport) &&
         (ranks_per_core == 0 ||
          in_hundredths(ranks_per_core) == in_hundredths(world.ranks_per_core));
}

int TuningScope::specificity() const {
  return (ranks != 0 ? 1 : 0) + (hosts.empty() ? 0 : 1) + (transport.empty() ? 0 : 1) +
         (ranks_per_core != 0 ? 1 : 0);
}

std::string TuningScope::text() const {
  char number[32];
  std::snprintf(number, sizeof number, "%.4g", ranks_per_core);
  return (ranks == 0 ? "any number of ranks" : std::to_string(ranks) + " ranks") +
         (hosts.empty() ? "" : " as " + hosts) + (transport.empty() ? "" : " over " + transport) +
         (ranks_per_core == 0 ? "" : ", " + std::string(number) + " per core");
}

TuningScope scope_of(const Layout& layout, bool shared_memory, double ranks_per_core) {
  TuningScope scope;
  scope.ranks = layout.ranks();
  scope.transport = shared_memory ? "shm" : "tcp";
  scope.ranks_per_core = in_hundredths(std::max(1.0, ranks_per_core));
  for (std::size_t host = 0; host < layout.members.size();) {
    const std::size_t size = layout.members[host].size(), first = host;
    while (host < layout.members.size() && layout.members[host].size() == size) ++host;
    scope.hosts += (scope.hosts.empty() ? "" : "+") + std::to_string(host - first) + "x" +
                   std::to_string(size);
  }
  if (!std::is_sorted(layout.host.begin(), layout.host.end())) scope.hosts += " interleaved";
  return scope;
}

void TuningTable::merge(const TuningTable& other) {
  for (const TuningPoint& point : other.points) {
    const auto same = std::find_if(points.begin(), points.end(), [&](const TuningPoint& each) {
      return each.collective == point.collective && each.bytes == point.bytes &&
             each.scope == point.scope;
    });
    if (same == points.end())
      points.push_back(point);
    else if (same->date <= point.date)
      *same = point;
  }
  if (other.model && (!model || model->date <= other.model->date)) model = other.model;
}

TuningTable TuningTable::of_ranks(Rank ranks) const {
  TuningTable part{topology, machine, library, {}, model};
  std::copy_if(points.begin(), points.end(), std::back_inserter(part.points),
               [&](const TuningPoint& point) {
                 return point.scope.ranks == 0 || point.scope.ranks == ranks;
               });
  return part;
}

std::vector<TuningPoint> TuningTable::points_for(const TuningScope& world) const {
  std::vector<TuningPoint> chosen;
  for (const TuningPoint& point : points) {
    if (!point.scope.holds_in(world)) continue;
    const auto same = std::find_if(chosen.begin(), chosen.end(), [&](const TuningPoint& each) {
      return each.collective == point.collective && each.bytes == point.bytes;
    });
    const auto score = [](const TuningPoint& each) {
      return std::tuple(each.scope.specificity(), std::string_view(each.date));
    };
    if (same == chosen.end())
      chosen.push_back(point);
    else if (score(*same) < score(point))
      *same = point;
  }
  return chosen;
}

bool are_apart(double value, double noise, double other, double other_noise) {
  const double difference = value - other;
  return difference * difference > noise * noise + other_noise * other_noise;
}

std::vector<Measured> measured(const std::vector<TuningPoint>& points, const CollectiveSpec& spec,
                               const Layout& layout, std::uint32_t size) {
  // Where the order is demanded, some to choose from were never measured.
  if (spec.order == SumOrder::sided_tree || (spec.order == SumOrder::tree && spec.ranks > 2)) {
    return {};
  }
  const Neighbours near = neighbours(points, spec.collective, size);
  if (near.below == nullptr) return {};
  const std::uint32_t from = size_class(near.below->bytes), to = size_class(near.above->bytes);
  // Plain arithmetic, no logarithms: all ranks must get the same bits, whatever their libm.
  const double up = to > from ? static_cast<double>(size - from) / (to - from) : 0;
  struct Pair {
    const Timing *low, *high;
  };
  std::vector<Pair> pairs;
  double least_low = std::numeric_limits<double>::max(), least_high = least_low;
  for (const Timing& low : near.below->timings) {
    const Timing* high = timing_of(*near.above, low.recipe);
    const Algorithm* algorithm = find_algorithm(low.recipe.algorithm);
    if (high == nullptr || algorithm == nullptr || !algorithm->competes(spec, layout)) continue;
    pairs.push_back({&low, high});
    least_low = std::min(least_low, low.us);
    least_high = std::min(least_high, high->us);
  }
  const double below = (1 - up) / least_low, above = up / least_high;
  std::vector<Measured> list;
  for (const auto& [low, high] : pairs) {
    list.push_back({low->recipe, (1 - up) * low->us + up * high->us,
                    below * low->us + above * high->us,
                    below * low->noise_us + above * high->noise_us});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Measured& a, const Measured& b) { return a.slowness < b.slowness; });
  return list;
}

const Measured* better_than_model(const std::vector<Measured>& list, const Algorithm& model) {
  if (list.empty()) return nullptr;
  const Measured& best = list.front();
  for (const Recipe& simpler : {Recipe{std::string(model.name)}, Recipe{best.recipe.algorithm}}) {
    for (const Measured& each : list) {
      if (each.recipe == simpler && each.slowness - best.slowness <= kMostDoubt &&
          !are_apart(each.slowness, each.noise, best.slowness, best.noise)) {
        return &each;
      }
    }
  }
  return &best;
}

}  // namespace coll
