// SPDX-License-Identifier: Apache-2.0
// Compares what chunks hold at the end with what the operation promises.
#include "schedule/proof/postcondition.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "schedule/schedule_fault.hpp"
#include "schedule/step_rules.hpp"

namespace coll {
namespace {

std::string times(std::uint64_t count) {
  return count == 2 ? "twice" : std::to_string(count) + " times";
}

/// The difference between what a chunk holds and what it should, in words.
std::string difference(const Contributions& contributions, Content content, std::uint32_t pass,
                       const Wanted& wanted, Rank ranks) {
  constexpr int kMost = 6;
  int parts = 0;
  std::string text;
  const auto add = [&](const std::string& part) {
    if (++parts <= kMost) text += (text.empty() ? "" : ", ") + part;
  };
  auto found = contributions.exactly(content);
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (wanted.source != kNoRank && wanted.source != rank) continue;
    const auto at = found.find({pass, rank, wanted.chunk});
    const std::string name = "contribution of rank " + std::to_string(rank);
    if (at == found.end()) {
      add(name + " missing");
      continue;
    }
    if (at->second > 1) add(name + " counted " + times(at->second));
    found.erase(at);
  }
  for (const auto& [foreign, count] : found) {
    add("input " + std::to_string(foreign.chunk) + " of rank " + std::to_string(foreign.rank) +
        (foreign.pass == pass ? "" : " of another pass") + " does not belong there");
  }
  if (parts > kMost) text += " and " + std::to_string(parts - kMost) + " more";
  return text;
}

class Check {
 public:
  Check(std::span<const Schedule> schedules, const SymbolicRun& run, Contributions& contributions)
      : schedules_(schedules), run_(run), contributions_(contributions) {}

  Status rank(std::uint32_t pass, const Schedule& schedule) {
    for (std::uint32_t chunk = 0; chunk < schedule.chunks.chunks(Space::output); ++chunk) {
      const Wanted wanted = wanted_in(schedule.spec, schedule.chunks.parts, schedule.rank, chunk);
      const Content content = run_.output(pass, schedule.rank, chunk);
      const std::string wrong = wrong_with(content, pass, wanted);
      if (!wrong.empty()) {
        return fault(schedule.rank, "output chunk " + std::to_string(chunk) + ": " + wrong);
      }
    }
    return {};
  }

 private:
  std::string wrong_with(Content content, std::uint32_t pass, const Wanted& wanted) {
    if (content == kNothing) return "never written";
    const bool reduced = wanted.source == kNoRank;
    const Summary& should =
        reduced ? sum_of_all(pass, wanted.chunk) : summary_of({pass, wanted.source, wanted.chunk});
    if (contributions_.summary(content) != should) {
      return difference(contributions_, content, pass, wanted,
                        static_cast<Rank>(schedules_.size()));
    }
    const std::uint32_t finishes = contributions_.finishes(content);
    if (!reduced || schedules_.size() == 1) return finishes == 0 ? "" : "finished, but not reduced";
    if (finishes == 0) return "the reduction is nowhere finished";
    if (finishes > 1) return "parts of the reduction are finished more than once";
    if (!contributions_.finished(content)) return "the reduction goes on after it is finished";
    const bool ordered = schedules_.front().spec.order != SumOrder::any;
    return !ordered || content == finished_tree_sum(pass, wanted.chunk)
               ? ""
               : "combined in another order than that of the tree";
  }

  /// Kept for the next rank that asks.
  Content finished_tree_sum(std::uint32_t pass, std::uint32_t chunk) {
    Content& sum = tree_sums_[{pass, chunk}];
    if (sum == kNothing) {
      const auto ranks = static_cast<Rank>(schedules_.size());
      sum = contributions_.finish(tree_sum(contributions_, pass, chunk, ranks));
    }
    return sum;
  }

  /// The contributions of all ranks to chunk `chunk`; kept for the next rank that asks.
  const Summary& sum_of_all(std::uint32_t pass, std::uint32_t chunk) {
    if (pass != sums_pass_) sums_.clear();
    sums_pass_ = pass;
    if (chunk >= sums_.size()) sums_.resize(chunk + 1);
    Summary& sum = sums_[chunk];
    if (sum.count == 0) {
      for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
        sum += summary_of({pass, static_cast<Rank>(rank), chunk});
      }
    }
    return sum;
  }

  std::span<const Schedule> schedules_;
  const SymbolicRun& run_;
  Contributions& contributions_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Content> tree_sums_;  ///< by pass and chunk
  std::vector<Summary> sums_;
  std::uint32_t sums_pass_ = 0;
};

}  // namespace

Wanted wanted_in(const CollectiveSpec& spec, std::uint32_t parts, Rank rank, std::uint32_t chunk) {
  const std::uint32_t own_block = static_cast<std::uint32_t>(rank) * parts;
  const auto block = static_cast<Rank>(chunk / parts);
  switch (spec.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
      return {.source = kNoRank, .chunk = chunk};
    case Collective::reduce_scatter:
      return {.source = kNoRank, .chunk = own_block + chunk};
    case Collective::broadcast:
    case Collective::recv:
      return {.source = spec.root, .chunk = chunk};
    case Collective::scatter:
      return {.source = spec.root, .chunk = own_block + chunk};
    case Collective::all_gather:
    case Collective::gather:
      return {.source = block, .chunk = chunk % parts};
    case Collective::all_to_all:
      return {.source = block, .chunk = own_block + chunk % parts};
    case Collective::send:
    case Collective::barrier:
      break;  // no output
  }
  return {};
}

Content tree_sum(Contributions& contributions, std::uint32_t pass, std::uint32_t chunk,
                 Rank ranks) {
  const auto input = [&](Rank rank) { return contributions.contribution({pass, rank, chunk}); };
  const auto places = static_cast<Rank>(std::bit_floor(static_cast<std::uint32_t>(ranks)));
  const Rank pairs = ranks - places;
  std::vector<Content> sums;
  for (Rank pair = 0; pair < pairs; ++pair) {
    sums.push_back(contributions.combine(input(2 * pair), input(2 * pair + 1)));
  }
  for (Rank rank = 2 * pairs; rank < ranks; ++rank) sums.push_back(input(rank));
  for (; sums.size() > 1; sums.resize(sums.size() / 2)) {
    for (std::size_t i = 0; i < sums.size() / 2; ++i) {
      sums[i] = contributions.combine(sums[2 * i], sums[2 * i + 1]);
    }
  }
  return sums.front();
}

Status check_postcondition(std::span<const Schedule> schedules, const SymbolicRun& run,
                           Contributions& contributions) {
  Check check(schedules, run, contributions);
  for (std::uint32_t pass = 0; pass < run.passes(); ++pass) {
    for (const Schedule& schedule : schedules) {
      const Collective collective = schedule.spec.collective;
      // A rank that receives without a sender takes no part.
      if (collective == Collective::recv && pair_of(schedules, schedule.rank) == kNoRank) continue;
      COLL_TRY(check.rank(pass, schedule));
      if (collective != Collective::barrier) continue;
      const Rank unheard = run.unheard(pass, schedule.rank);
      if (unheard != kNoRank) {
        return fault(schedule.rank, "leaves the barrier although rank " + std::to_string(unheard) +
                                        " may not have entered it");
      }
    }
  }
  return {};
}

bool same_order_everywhere(std::span<const Schedule> schedules, const SymbolicRun& run) {
  const Schedule& first = schedules.front();
  if (first.spec.collective != Collective::all_reduce) return true;  // one copy, or no reduction
  for (std::uint32_t chunk = 0; chunk < first.chunks.chunks(Space::output); ++chunk) {
    const Content content = run.output(0, 0, chunk);
    for (const Schedule& schedule : schedules) {
      if (run.output(0, schedule.rank, chunk) != content) return false;
    }
  }
  return true;
}

}  // namespace coll
