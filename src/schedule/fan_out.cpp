// SPDX-License-Identifier: Apache-2.0
// Messages that one lane sends to several peers in a row.
#include "schedule/fan_out.hpp"

#include <algorithm>

namespace coll {
namespace {

/// Does `next` send what `step` has just sent, to another peer, and nothing else?
bool repeats(const Step& step, const Step& next) {
  const bool plain = next.sends() && !next.receives() && !next.with.present() &&
                     !next.into.present() && next.wait_lane < 0;
  const bool local = !step.receives() && !step.with.present();
  const bool same = (step.into.present() && next.from == step.into) ||
                    (local && step.from.present() && next.from == step.from);
  return plain && same && step.sends() && step.target != next.target && step.count > 0 &&
         next.count == step.count;
}

}  // namespace

std::vector<FanOut> fan_outs(const Lane& lane) {
  std::vector<FanOut> all(lane.size());
  std::vector<Rank> targets;
  for (std::size_t first = 0; first < lane.size();) {
    const Step step = lane[first];
    std::size_t end = first + 1;
    while (end < lane.size() && repeats(step, lane[end])) ++end;
    if (end > first + 1) {
      std::vector<Rank> run;
      for (std::size_t at = first; at < end; ++at) run.push_back(lane[at].target);
      std::sort(run.begin(), run.end());
      if (targets.empty()) targets = run;
      if (run != targets) return std::vector<FanOut>(lane.size());
      const auto readers = static_cast<std::uint32_t>(run.size());
      for (std::size_t at = first; at < end; ++at) all[at] = {readers, at == first};
    }
    first = end;
  }
  return all;
}

}  // namespace coll
