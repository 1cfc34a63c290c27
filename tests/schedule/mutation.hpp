// SPDX-License-Identifier: Apache-2.0
// Damages a schedule in one place: the proof must notice.
#pragma once
#include <functional>
#include <string>

#include "sample_schedules.hpp"

namespace coll {

/// One change of one step: `apply` it to a copy of the set it was made for.
struct Mutation {
  std::string kind;  ///< "drop", "redirect target"…
  std::size_t rank = 0, lane = 0, step = 0;
  std::function<void(std::vector<Step>& steps, std::size_t step)> change;

  void apply(samples::Set& set) const {
    Lane& damaged = set[rank].lanes[lane];
    if (damaged.size() <= step) return;
    samples::change(damaged, [&](std::vector<Step>& steps) { change(steps, step); });
  }
};

/// Every mutation of every step: drop, duplicate, swap with the next, redirect source or target to
/// any rank, move an operand by chunks, longer and shorter, flip finish, another space, no wait or
/// an earlier one.
std::vector<Mutation> mutations_of(const samples::Set& set);

}  // namespace coll
