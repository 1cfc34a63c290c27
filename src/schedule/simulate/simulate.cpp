// SPDX-License-Identifier: Apache-2.0
// How long schedules take on a network, from the events of their first passes.
#include "schedule/simulate/simulate.hpp"

#include <algorithm>
#include <cmath>

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

}  // namespace

Result<Simulated> simulate(std::span<const Schedule> schedules, const Network& network,
                           const Load& load, const Disturbance& disturbance,
                           const Symmetry& symmetry) {
  const Windows windows = windows_of(schedules.front(), load);
  const auto run = [&](std::uint64_t passes) -> Result<Simulation> {
    const std::uint64_t calls = std::max<std::uint64_t>(1, passes / windows.passes);
    Simulation simulation(schedules, network, load, windows, calls,
                          std::min(passes, windows.passes), disturbance, symmetry);
    COLL_TRY(simulation.run());
    return simulation;
  };
  const std::uint64_t few = passes_to_run(schedules, load);
  const std::uint64_t passes = std::min(windows.passes, 2 * few);
  COLL_ASSIGN(const Simulation simulation, run(passes));
  Simulated result;
  result.rank_us = simulation.rank_end();
  result.link_us = simulation.link_busy();
  result.us = simulation.us();
  if (passes < windows.passes || load.in_a_row) {
    // A part of the call and twice as much; or the call and several.
    const bool part = passes < windows.passes;
    const std::uint64_t more =
        part ? few : std::clamp<std::uint64_t>(few / passes, 2, kCalls) * passes;
    COLL_ASSIGN(const Simulation other, run(part ? few : passes + more));
    const Simulation &shorter = part ? other : simulation, &longer = part ? simulation : other;
    // Ranks of one core may happen to have their turns at better times in the longer run; but no
    // pass takes less than its work.
    const double pass_us =
        std::max(longer.us() - shorter.us(), longer.core_busy() - shorter.core_busy()) /
        static_cast<double>(more);
    const double rest = pass_us * static_cast<double>(windows.passes - passes);
    for (double& us : result.rank_us) us += rest;
    result.us += rest;
    result.each_us = pass_us * static_cast<double>(windows.passes);
  }
  const double scale = static_cast<double>(windows.passes) / static_cast<double>(passes);
  const double groups =
      symmetry.size > 0 ? static_cast<double>(schedules.front().spec.ranks) / symmetry.size : 1;
  result.messages = static_cast<double>(simulation.messages()) * scale * groups;
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

}  // namespace coll
