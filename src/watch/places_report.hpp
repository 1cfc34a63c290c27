// SPDX-License-Identifier: Apache-2.0
// Who is where, as the failure that all ranks get.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "watch/watch.hpp"
#include "watch/watch_words.hpp"

namespace coll {

/// "rank 3 (pid 812 on host a)"
std::string member_text(Rank rank, const std::vector<Member>& members);

/// What is known of each rank, in rank order.
struct RankPlace {
  std::optional<Whereabouts> place;  ///< none: it did not answer
  bool left = false;                 ///< it left in order
};

/// Whether where `rank` is matters for the question: a send or receive concerns two ranks, and the
/// others are free to be anywhere.
bool concerns(const Question& question, Rank rank);

/// Did a rank call something else than the question's call as its call of that number?
bool calls_differ(const Question& question, const std::vector<RankPlace>& ranks);

/// The failure for a question (no doubt) once the ranks have answered: those that are elsewhere
/// first, ranks in the same place put together. "rank 1 waited 5.0 s in all_reduce #41 f32x4096
/// sum; rank 3 is in all_gather #41 f32x4096; ranks 0-2 are in all_reduce #41 f32x4096 sum; rank 5
/// (pid 812 on host a) does not answer"
Status places_report(const Question& question, const std::vector<RankPlace>& ranks,
                     const std::vector<Member>& members);

}  // namespace coll
