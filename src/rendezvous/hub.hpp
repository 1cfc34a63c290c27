// SPDX-License-Identifier: Apache-2.0
// The hub: the side of the meeting that listens.
#pragma once
#include <functional>
#include <string>

#include "rendezvous/handshake.hpp"
#include "rendezvous/rendezvous.hpp"
#include "sys/clock.hpp"
#include "sys/net/listeners.hpp"

namespace coll {

/// What the hub does beside listening, a few times per second: keep its published address in place,
/// look whether another process claims to be it. A failure ends the meeting, on all ranks.
using HubChore = std::function<Status()>;

/// Lets the other ranks in through `listeners` until all are there. Strangers (no proof of the key,
/// or none in time) are dropped: at most a fixed number of them are kept, each for a bounded time
/// with a bounded memory, and the oldest goes first. Who claims a rank that another process holds,
/// or another size, is refused and told why; the holder keeps its place as long as its socket is
/// open. Any failure is sent to every rank that is in.
Result<Meeting> hold_meeting(Listeners listeners, const std::string& key, const Claimant& me,
                             const std::string& source, Deadline deadline, const HubChore& chore);

}  // namespace coll
