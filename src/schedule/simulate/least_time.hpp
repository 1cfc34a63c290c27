// SPDX-License-Identifier: Apache-2.0
// How long a call takes at least, from the schedules of a few ranks.
#pragma once
#include <functional>
#include <span>

#include "schedule/simulate/simulate.hpp"

namespace coll {

/// No simulation of the call ends sooner, up to what extrapolation of long calls loses: a rank has
/// to do its steps, its messages have to cross links one after the other, and a message cannot
/// leave before those that its sender waits for have come. `build` gives any rank's schedule; of
/// `ranks` each is asked for its own work, and for a chain of messages that ends at it, back to
/// where that begins. Takes a time that does not depend on how many ranks there are: of long lanes
/// and chains, only so much is looked at.
double least_us(const std::function<Schedule(Rank)>& build, std::span<const Rank> ranks,
                const Network& network, const Load& load);

}  // namespace coll
