// SPDX-License-Identifier: Apache-2.0
// The bytes of a step's message, as the simulator cuts a call.
#pragma once
#include "schedule/simulate/simulate.hpp"
#include "schedule/window.hpp"

namespace coll {

/// The passes of a call of `load`; `first` is any rank's schedule.
Windows windows_of(const Schedule& first, const Load& load);

/// The bytes that a step moves in a pass, as the executor cuts it; `parts` are its schedule's.
double bytes_in_pass(const Windows& windows, std::uint32_t parts, const Step& step,
                     std::uint64_t pass);

}  // namespace coll
