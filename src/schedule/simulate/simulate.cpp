// SPDX-License-Identifier: Apache-2.0
// How long schedules take on a network, from the events of their first passes.
#include "schedule/simulate/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedule/simulate/load_windows.hpp"
#include "schedule/simulate/simulation.hpp"

namespace coll {
namespace {

/// Once a pipeline is full, each pass takes as long as the pass before. So a short run and a run of
/// twice the passes show that time. The short run has more passes of each copy of the lanes than a
/// connection has credits, because ranks may run ahead of each other that far. Where passes have
/// many steps it is shorter.
constexpr std::uint64_t kPassesBeyondCredits = 4, kMostCredits = 16;
/// Up to this many further calls in a row show the rate.
constexpr std::uint64_t kCalls = 4;

std::uint64_t passes_to_run(std::span<const Schedule> schedules, const Load& load) {
  double steps = 0;
  for (const Schedule& schedule : schedules) {
    for (const Lane& lane : schedule.lanes) steps += static_cast<double>(lane.size());
  }
  const auto affordable = static_cast<std::uint64_t>(load.effort / std::max(steps, 1.0));
  const std::uint64_t each = std::clamp<std::uint64_t>(
      affordable / load.copies, 2,
      std::min<std::uint64_t>(load.credits, kMostCredits) + kPassesBeyondCredits);
  return each * load.copies;
}

/// Two computations of one value differ by less.
constexpr double kRounding = 1 + 1e-6;
constexpr double kNever = std::numeric_limits<double>::infinity();

/// The passes of a call that are simulated.
struct Sample {
  explicit Sample(std::span<const Schedule> schedules, const Load& load, const Windows& windows)
      : all(windows.passes), few(passes_to_run(schedules, load)), part(2 * few < all) {
    const std::uint64_t calls = std::clamp<std::uint64_t>(few / all, 2, kCalls);
    first = part ? few : all;
    more = part ? few : calls * all;
  }
  std::uint64_t all;    ///< passes of a call
  std::uint64_t few;    ///< passes that show a rate
  bool part;            ///< the call has too many passes to simulate
  std::uint64_t first;  ///< passes of the first run: a part of the call, or the call
  std::uint64_t more;   ///< further passes of the second: as many again, or several calls

  [[nodiscard]] std::uint64_t calls() const { return more / all; }
  /// Passes of the run that stands for the call.
  [[nodiscard]] std::uint64_t passes() const { return part ? first + more : all; }
};

/// What a run says of the call, if each pass that was left out takes `pass_us`.
Simulated result_of(const Simulation& simulation, const Sample& sample, double pass_us,
                    const Network& network) {
  const auto passes = static_cast<double>(sample.passes()), all = static_cast<double>(sample.all);
  const double scale = all / passes, rest_us = pass_us * (all - passes);
  Simulated result{.us = simulation.us() + rest_us,
                   .each_us = pass_us * all,
                   .rank_us = simulation.rank_end(),
                   .messages = static_cast<double>(simulation.messages()) * scale,
                   .link_us = simulation.link_busy()};
  for (double& us : result.rank_us) us += rest_us;
  for (double& us : result.link_us) us *= scale;

  result.bottleneck = "processor";
  double busiest = simulation.core_busy() * scale;
  for (std::size_t link = 0; link < result.link_us.size(); ++link) {
    if (result.link_us[link] <= busiest) continue;
    busiest = result.link_us[link];
    result.bottleneck = network.links[link].name;
  }
  result.busy = result.us > 0 ? std::min(1.0, busiest / result.us) : 0;
  if (result.busy < 0.5) result.bottleneck = "latency";
  return result;
}

}  // namespace

Result<Simulated> simulate(std::span<const Schedule> schedules, const Network& network,
                           const Load& load, const Disturbance& disturbance,
                           const Symmetry& symmetry) {
  const Windows windows = windows_of(schedules.front(), load);
  const BoundLanes bound(schedules, network, load, windows, disturbance, symmetry);
  const auto run = [&](std::uint64_t passes, double most_us) -> Result<Simulation> {
    Simulation simulation(bound, network, load,
                          {.calls = std::max<std::uint64_t>(1, passes / windows.passes),
                           .passes = std::min(passes, windows.passes),
                           .last_pass = windows.passes - 1,
                           .most_us = most_us},
                          disturbance);
    COLL_TRY(simulation.run());
    return simulation;
  };
  const auto result = [&](const Simulation& simulation, const Sample& sample, double pass_us) {
    Simulated all = result_of(simulation, sample, pass_us, network);
    if (symmetry.size > 0)
      all.messages *= static_cast<double>(schedules.front().spec.ranks) / symmetry.size;
    return all;
  };
  const Simulated hopeless{.us = kNever, .each_us = kNever};
  const double most_score = load.most_score * kRounding;
  const Sample sample(schedules, load, windows);
  // No call takes less than the work of its busiest core, alone or in a row. Where passes are left
  // out, they count as full ones, and the run of twice the passes may take hardly longer.
  const double least_us =
      bound.work_us(sample.part ? sample.all : sample.all - 1, !sample.part, network);
  if (least_us * least_us * least_us > most_score) return hopeless;

  const auto all = static_cast<double>(sample.all), first = static_cast<double>(sample.first);
  const double after_us = sample.part ? least_us * (all - 2 * first) / all : 0;
  COLL_ASSIGN(const Simulation shorter,
              run(sample.first, most_score / (least_us * least_us) - after_us));
  if (shorter.gave_up()) return hopeless;
  if (!sample.part && !load.in_a_row) return result(shorter, sample, 0);

  // The passes that follow take as long as these, and the call no less than what follows.
  const double most_us =
      sample.part ? first * std::cbrt(most_score / ((all - first) * all * all))
                  : static_cast<double>(sample.calls()) * std::sqrt(most_score / shorter.us());
  COLL_ASSIGN(const Simulation longer, run(sample.first + sample.more, shorter.us() + most_us));
  if (longer.gave_up()) return hopeless;
  // Ranks of one core may happen to have their turns at better times in the longer run; but no
  // pass takes less than its work.
  const double more_us =
      std::max(longer.us() - shorter.us(), longer.core_busy() - shorter.core_busy());
  return result(sample.part ? longer : shorter, sample, more_us / static_cast<double>(sample.more));
}

}  // namespace coll
