// SPDX-License-Identifier: Apache-2.0
// Every rank's text to every rank.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "rendezvous/rendezvous.hpp"

namespace coll {

/// How what the hub has gathered gets around. A star sends each rank all of it: n² texts leave one
/// process. In a tree each rank sends it to `fan_out` others; docs/performance.md has what both
/// cost.
struct Relaying {
  Rank star_up_to = 512;  ///< ranks that hear from the hub itself; a tree if there are more
  Rank fan_out = 16;
  /// A relay gives a rank up that it cannot reach, or that takes nothing from it for so long.
  std::chrono::milliseconds call_time{3000};
  /// The hub itself serves those it has not heard of once nobody has said anything for so long.
  std::chrono::milliseconds help_time{6000};
};

/// Every rank's text to every rank, in rank order. Blocking; init only. Fails on all ranks, by the
/// deadline and with the same failure, where one goes away or does not come (unless that is the
/// hub).
///
/// The hub stays linked with every rank and gathers all texts from them. Where relays hand the
/// answer on, it hears from each rank that it has it, serves those that a relay cannot reach or
/// leaves waiting, a few at a time, and lets all go only then: a relay that dies or hangs costs
/// time and hides nobody.
Result<std::vector<std::string>> exchange(Meeting& meeting, std::string mine,
                                          std::chrono::steady_clock::time_point deadline,
                                          const Relaying& relaying = {});

/// The same, but unread: a rank's share of the work without n texts in memory.
Result<std::string> exchange_packed(Meeting& meeting, std::string mine,
                                    std::chrono::steady_clock::time_point deadline,
                                    const Relaying& relaying = {});

}  // namespace coll
