// SPDX-License-Identifier: Apache-2.0
// Ranks grouped by where they are, worded.
#include "watch/places_report.hpp"

#include <algorithm>
#include <cstdio>

#include "rendezvous/ranks_text.hpp"

namespace coll {
namespace {

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

/// Ranks of which the same can be said.
struct Group {
  std::string one;    ///< "is in …"
  std::string many;   ///< "are in …"
  bool fine = false;  ///< they are where they should be
  double since_s = 0;
  bool between = false;  ///< outside of calls: for how long is worth saying
  std::vector<Rank> ranks;
};

/// May two ranks be in these two calls at the same time, each for the other? A send meets a receive
/// of the same elements; all else must be equal, but for counts that are each rank's own.
bool agree(const Call& a, const Call& b) {
  if (!a.is_pair()) {
    Call other = b;
    if (a.has_own_count()) other.count = a.count;
    return a == other;
  }
  return b.is_pair() && a.collective != b.collective && a.type == b.type && a.count == b.count;
}

Group where_now(const Question& question, const RankPlace& rank) {
  Group group;
  if (rank.left) {
    group.one = group.many = "left the communicator";
    return group;
  }
  if (!rank.place) {
    group.one = "does not answer";
    group.many = "do not answer";
    return group;
  }
  const CallBoard::Reading& reading = rank.place->reading;
  group.since_s = rank.place->since_s;
  if (reading.inside) {
    std::string where = "in " + reading.call.text();
    if (reading.others != 0) where += " and " + std::to_string(reading.others) + " more";
    group.one = "is " + where;
    group.many = "are " + where;
    group.fine = question.call == reading.call || agree(question.call, reading.call);
  } else if (reading.call.sequence == 0) {
    group.one = "has not called anything yet";
    group.many = "have not called anything yet";
  } else {
    group.one = "is in no call, the last was " + reading.call.text();
    group.many = "are in no call, the last was " + reading.call.text();
    group.between = true;
  }
  return group;
}

/// What a rank called where the question's call was due.
Group what_it_called(const Question& question, const RankPlace& rank) {
  if (!rank.place || rank.left) return where_now(question, rank);
  if (rank.place->counterpart) {
    Group group;
    group.one = group.many = "called " + rank.place->counterpart->text();
    group.fine =
        question.call == *rank.place->counterpart || agree(question.call, *rank.place->counterpart);
    return group;
  }
  return where_now(question, rank);
}

std::vector<Group> grouped(const Question& question, const std::vector<RankPlace>& ranks) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto rank = static_cast<Rank>(i);
    if (!concerns(question, rank)) continue;
    Group group = question.reason == Question::Reason::mismatch ? what_it_called(question, ranks[i])
                                                                : where_now(question, ranks[i]);
    const double since_s = group.since_s;
    auto same = std::ranges::find(groups, group.one, &Group::one);
    if (same == groups.end()) {
      groups.push_back(std::move(group));
      same = groups.end() - 1;
    }
    same->since_s = std::min(same->since_s, since_s);
    same->ranks.push_back(rank);
  }
  std::ranges::stable_sort(groups, {}, &Group::fine);
  return groups;
}

std::string worded(const Group& group, const std::vector<Member>& members) {
  if (group.ranks.size() > 1) {
    std::string text = ranks_text(group.ranks) + " " + group.many;
    if (group.between) text += ", " + seconds_text(group.since_s) + " ago or more";
    return text;
  }
  const Rank rank = group.ranks.front();
  std::string text = group.fine ? "rank " + std::to_string(rank) : member_text(rank, members);
  text += " " + group.one;
  if (group.between) text += ", " + seconds_text(group.since_s) + " ago";
  return text;
}

}  // namespace

bool concerns(const Question& question, Rank rank) {
  const bool two = question.call.is_pair() && question.call.root != kNoRank;
  return !two || rank == question.asker || rank == question.call.root;
}

std::string member_text(Rank rank, const std::vector<Member>& members) {
  const std::string name = "rank " + std::to_string(rank);
  const auto at = static_cast<std::size_t>(rank);
  if (rank < 0 || at >= members.size() || members[at].pid == 0) return name;
  return name + " (pid " + std::to_string(members[at].pid) + " on host " + members[at].host + ")";
}

bool calls_differ(const Question& question, const std::vector<RankPlace>& ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankPlace& rank = ranks[i];
    if (!rank.place || !rank.place->counterpart || !concerns(question, static_cast<Rank>(i)))
      continue;
    if (rank.place->counterpart->sequence == question.call.sequence &&
        !what_it_called(question, rank).fine)
      return true;
  }
  return false;
}

Status places_report(const Question& question, const std::vector<RankPlace>& ranks,
                     const std::vector<Member>& members) {
  const bool mismatch = question.reason == Question::Reason::mismatch;
  const std::vector<Group> groups = grouped(question, ranks);
  std::string what = mismatch
                         ? "ranks called different operations"
                         : "rank " + std::to_string(question.asker) + " waited " +
                               seconds_text(question.waited_s) + " in " + question.call.text() +
                               (question.found.empty() ? "" : " (" + question.found + ")");
  std::vector<Rank> elsewhere;
  bool silent = false;
  for (const Group& group : groups) {
    what += (&group == &groups.front() ? ": " : "; ") + worded(group, members);
    if (group.fine) continue;
    elsewhere.insert(elsewhere.end(), group.ranks.begin(), group.ranks.end());
    const RankPlace& first = ranks[static_cast<std::size_t>(group.ranks.front())];
    silent = silent || (!first.place && !first.left);
  }
  std::string hint =
      "all ranks must call the same operations, with the same arguments, in the same "
      "order";
  if (mismatch) {
    // Equal calls whose messages differ: say what was seen.
    if (elsewhere.empty()) {
      what += "; yet rank " + std::to_string(question.asker) + " found: " + question.found;
      const bool own = reduces(question.call.collective) && is_own(question.call.op);
      hint = question.call.unequal() ? "the two ranks of a block must give the same count for it"
             : question.call.has_parts() || own
                 ? "all ranks must give parts of the same counts, and reductions of the same name, "
                   "and have the same settings (COLL_*)"
                 : "use the same settings (COLL_*) and version of the library on all ranks";
    }
    // Says which operation, without its text: other ranks' texts differ.
    return failed(Code::mismatch, std::move(what), std::move(hint))
        .in_call({"", question.call.sequence, question.call.collective})
        .at_rank(elsewhere.size() == 1 ? elsewhere.front() : question.peer);
  }
  if (silent) {
    hint = "see whether that process is stopped, or its host overloaded or gone";
  } else if (question.call.tagged() && !question.found.empty()) {
    hint = "both ends must use the same tag, or COLL_ANY_TAG, and name each other";
  } else if (elsewhere.empty()) {
    hint = "the call is slower than COLL_DEADLINE_S allows, or a connection is stuck";
  }
  return failed(Code::deadline, std::move(what), std::move(hint))
      .in_call(question.call.label())
      .at_rank(elsewhere.size() == 1 ? elsewhere.front() : kNoRank);
}

}  // namespace coll
