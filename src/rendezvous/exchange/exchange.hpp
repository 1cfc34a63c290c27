// SPDX-License-Identifier: Apache-2.0
// Every rank's text to every rank.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "rendezvous/rendezvous.hpp"

namespace coll {

/// How the gathered texts reach all ranks. In a star the hub sends all of them to each rank: n²
/// texts leave one process. In a tree each rank passes them on to `fan_out` others.
/// docs/performance.md says what both cost.
struct Relaying {
  Rank star_up_to = 512;  ///< ranks that hear from the hub itself; a tree if there are more
  Rank fan_out = 16;
  /// A relay gives up on a rank that it cannot reach, or that takes nothing, for this long.
  std::chrono::milliseconds call_time{3000};
  /// Once no rank has reported for this long, the hub itself serves the ranks that have not.
  std::chrono::milliseconds help_time{6000};
};

/// Gives every rank the texts of all ranks, in rank order. Blocks; init only. If a rank goes away
/// or does not come, it fails on all ranks, by the deadline and with the same failure (unless that
/// rank is the hub).
///
/// The hub stays linked with every rank and gathers all texts from them. Where relays pass the
/// answer on, each rank tells the hub that it has the answer. The hub serves ranks that a relay
/// cannot reach or leaves waiting, a few at a time. It lets all ranks go only then, so a relay that
/// dies or hangs costs time, but hides no rank.
Result<std::vector<std::string>> exchange(Meeting& meeting, std::string mine,
                                          std::chrono::steady_clock::time_point deadline,
                                          const Relaying& relaying = {});

/// The same, but leaves the texts packed: a rank does its share without n texts in memory.
Result<std::string> exchange_packed(Meeting& meeting, std::string mine,
                                    std::chrono::steady_clock::time_point deadline,
                                    const Relaying& relaying = {});

}  // namespace coll
