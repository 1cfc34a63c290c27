// SPDX-License-Identifier: Apache-2.0
// How the simulator cuts a call into passes, and how many bytes a step then moves.
#pragma once
#include "schedule/simulate/simulate.hpp"
#include "schedule/window.hpp"

namespace coll {

/// The passes of a call of `load`; `first` is any rank's schedule.
Windows windows_of(const Schedule& first, const Load& load);

/// The bytes that a step moves in a pass, cut as the executor cuts it. `parts` is the number of
/// parts per block in its schedule.
double bytes_in_pass(const Windows& windows, std::uint32_t parts, const Step& step,
                     std::uint64_t pass);

}  // namespace coll
