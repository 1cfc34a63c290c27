// SPDX-License-Identifier: Apache-2.0
// A lower bound of a call's time, from the schedules of a few ranks.
#pragma once
#include <functional>
#include <span>

#include "schedule/simulate/simulate.hpp"

namespace coll {

/// A lower bound of the call's simulated time in microseconds, up to the error of extrapolating
/// long calls. A rank has to do its steps, its messages have to cross links one after another, and
/// a message cannot leave before the messages that its sender waits for have arrived.
///
/// `build` returns any rank's schedule. For each rank in `ranks` it counts the rank's own work and
/// follows one chain of messages that ends at the rank back to its beginning. The time this takes
/// does not depend on the number of ranks: it looks only at a limited part of long lanes and
/// chains.
double least_us(const std::function<Schedule(Rank)>& build, std::span<const Rank> ranks,
                const Network& network, const Load& load);

}  // namespace coll
