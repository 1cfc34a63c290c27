// SPDX-License-Identifier: Apache-2.0
// Where some ranks of a communicator meet to become a communicator of their own.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "communicator/communicator.hpp"

namespace coll {

/// A rank's place in the new communicator, and the way there. A part with the hub of the old
/// communicator's control plane is a topic there; the others meet anew. So each communicator loses
/// its star only with one of its own ranks.
struct Part {
  std::unique_ptr<Topic> topic{};
  Acquaintance known{};  ///< of a topic's ranks
  MeetingPlace place;    ///< says nothing if there is a topic, or `size` is 1
  Rank rank = 0;
  Rank size = 1;
};

/// To which part a rank wants to belong: none without a color.
struct SplitWish {
  std::optional<std::int32_t> color;
  std::int32_t key = 0;
};

/// How a rank joins its part, which finds its rank, size and place.
struct PartJoining {
  Joining joining;
  bool same_paths = true;  ///< by the transports and interfaces of the old communicator
};

/// Collective: ranks that give the same color belong together, ordered by key, then by rank.
/// Nothing for a rank without a color. A part that meets anew meets at its first rank, which
/// listens on the interfaces of `how`. A rank whose wish was refused takes part too, so that all
/// ranks fail.
///
/// The old communicator carries what the ranks of a topic have to tell each other, which takes
/// microseconds; the sockets of its plane take a wake-up for each step.
Result<std::optional<Part>> split(Communicator& parent, const Result<SplitWish>& wish,
                                  const PartJoining& how);

/// The ranks named, in that order. Called by them alone, all with the same list: one send from the
/// first to each other.
Result<Part> subset(Communicator& parent, std::span<const int> ranks, const PartJoining& how);

}  // namespace coll
