// SPDX-License-Identifier: Apache-2.0
// Scales the constants of the cost model by what ranks measured.
#include "planner/costs/measured_costs.hpp"

#include <algorithm>
#include <limits>

namespace coll {
namespace {

constexpr double ProbeCost::*kProbes[] = {
    &ProbeCost::copy_us_per_byte, &ProbeCost::fetch_us,         &ProbeCost::fetch_us_per_byte,
    &ProbeCost::line_us,          &ProbeCost::pass_us_per_byte, &ProbeCost::chain_us,
    &ProbeCost::send_us};
static_assert(sizeof(ProbeCost) == std::size(kProbes) * sizeof(double), "every value is agreed on");

/// No machine is so far from another; a measurement beyond it was disturbed, or forbidden.
constexpr double kMostRatio = 16;
/// Copies of ranks that share a core, and copies in the kernel, do more than copy: they find the
/// caches used by others, and look up pages. They get no faster than this.
constexpr double kLeastBusyCopy = 0.5;

}  // namespace

ProbeCost agreed(const std::vector<ProbeCost>& of_ranks, const Layout& layout) {
  ProbeCost all;
  for (const auto probe : kProbes) {
    for (Rank host = 0; host < layout.hosts(); ++host) {
      double least = std::numeric_limits<double>::infinity();
      bool known = false;  // also where it is infinite: what the kernel forbids is dear
      for (const Rank rank : layout.members_of(host)) {
        const double value = of_ranks[static_cast<std::size_t>(rank)].*probe;
        if (!(value > 0)) continue;
        known = true;
        least = std::min(least, value);
      }
      if (known) all.*probe = std::max(all.*probe, least);
    }
  }
  return all;
}

CostConstants measured_costs(const CostConstants& costs, const ProbeCost& now,
                             double ranks_per_core) {
  const auto known = [&](double ProbeCost::*probe) {
    return now.*probe > 0 && costs.probe.*probe > 0;
  };
  const auto ratio = [&](double ProbeCost::*probe) {
    if (!known(probe)) return 1.0;
    return std::clamp(now.*probe / costs.probe.*probe, 1 / kMostRatio, kMostRatio);
  };
  const bool crowded = ranks_per_core > 1;
  const double copy = ratio(&ProbeCost::copy_us_per_byte), line = ratio(&ProbeCost::line_us);
  const double step = ratio(&ProbeCost::chain_us), send = ratio(&ProbeCost::send_us);
  const double busy_copy = std::max(kLeastBusyCopy, copy);
  const double pass =
      known(&ProbeCost::pass_us_per_byte) ? ratio(&ProbeCost::pass_us_per_byte) : busy_copy;
  const double passed = crowded ? std::max(kLeastBusyCopy, pass) : pass;
  CostConstants of = costs;
  PathCost& memory = of.memory;
  for (double* each : {&memory.alpha_us, &memory.line_us, &memory.long_us}) *each *= line;
  for (double* each : {&memory.step_us, &memory.send_us, &of.kernel.step_us}) *each *= step;
  for (double* each :
       {&memory.send_us_per_byte, &memory.receive_us_per_byte, &memory.page_us_per_byte}) {
    *each *= passed;
  }
  memory.fetch_us *= ratio(&ProbeCost::fetch_us);
  memory.fetch_us_per_byte *= ratio(&ProbeCost::fetch_us_per_byte);
  // The kernel's copies are slower on some machines, the memory that they read is not.
  for (double* each : {&of.copy.us_per_byte, &memory.fetch_cold_us_per_byte})
    *each *= crowded ? busy_copy : copy;
  for (double* each : {&of.kernel.alpha_us, &of.kernel.send_us}) *each *= send;
  for (double* each :
       {&of.kernel.send_us_per_byte, &of.kernel.receive_us_per_byte, &of.kernel.page_us_per_byte}) {
    *each *= busy_copy;
  }
  return of;
}

}  // namespace coll
