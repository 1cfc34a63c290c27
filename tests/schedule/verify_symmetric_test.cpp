// SPDX-License-Identifier: Apache-2.0
// The proof by symmetry against the proof by a run of all ranks, over damaged schedules.
#include "schedule/proof/verify_symmetric.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "mutation.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace {

using samples::Set;
using testing::HasSubstr;

constexpr Symmetry kShift{Symmetry::Kind::shift, 1};
constexpr Symmetry kExclusiveOr{Symmetry::Kind::exclusive_or, 1};

struct Sample {
  std::string name;
  Set set;
  Symmetry symmetry;
  PartsOf parts = PartsOf::stride;
};

std::vector<Sample> symmetric_samples() {
  std::vector<Sample> list;
  for (const Rank ranks : {2, 3, 4, 5, 8}) {
    const auto add = [&](const std::string& name, Set set, const Symmetry& symmetry = kShift) {
      list.push_back({name + " of " + std::to_string(ranks), std::move(set), symmetry});
    };
    add("ring all_reduce", samples::ring_all_reduce(ranks));
    add("two-ring all_reduce", samples::two_ring_all_reduce(ranks));
    add("ring reduce_scatter", samples::ring_reduce_scatter(ranks));
    add("ring all_gather", samples::ring_all_gather(ranks));
    add("linear all_to_all", samples::linear_all_to_all(ranks, 2));
    add("dissemination barrier", samples::dissemination_barrier(ranks));
    if (ranks % 2 == 0) {
      add("ring all_gather in pairs", samples::ring_all_gather(ranks), {Symmetry::Kind::shift, 2});
    }
    if ((ranks & (ranks - 1)) == 0) {
      add("recursive doubling", samples::recursive_doubling_all_reduce(ranks), kExclusiveOr);
    }
  }
  return list;
}

Status by_symmetry(const Set& set, const Symmetry& symmetry) {
  return verify_symmetric([&](Rank rank) { return set[static_cast<std::size_t>(rank)]; }, symmetry)
      .status();
}

TEST(VerifySymmetric, AcceptsAndCountsAsARunOfAllDoes) {
  for (const Sample& sample : symmetric_samples()) {
    SCOPED_TRACE(sample.name);
    const auto folded = verify_symmetric(
        [&](Rank rank) { return sample.set[static_cast<std::size_t>(rank)]; }, sample.symmetry);
    ASSERT_TRUE(folded.ok()) << folded.status().text();
    const Verified all = *verify(sample.set);
    EXPECT_EQ(folded->steps_total, all.steps_total);
    EXPECT_EQ(folded->steps_most, all.steps_most);
    EXPECT_EQ(folded->rounds, all.rounds);
    EXPECT_EQ(folded->chunks_sent_total, all.chunks_sent_total);
    EXPECT_EQ(folded->chunks_sent_most, all.chunks_sent_most);
    EXPECT_EQ(folded->chunks_reduced_most, all.chunks_reduced_most);
    EXPECT_EQ(folded->message_most, all.message_most);
  }
}

/// The first group, damaged, and all others damaged alike; empty where the damage tears chunks
/// apart when it is moved.
Set spread(const Sample& sample, const Mutation& mutation) {
  Set set = sample.set;
  mutation.apply(set);
  const auto size = static_cast<std::size_t>(sample.symmetry.size);
  for (std::size_t rank = size; rank < set.size(); ++rank) {
    const Schedule& original = set[rank % size];
    const Motion motion(sample.symmetry, sample.parts, original,
                        static_cast<Rank>(rank / size * size));
    for (std::size_t lane = 0; lane < original.lanes.size(); ++lane) {
      set[rank].lanes[lane] = Lane();
      for (const Step& step : original.lanes[lane]) {
        const auto moved = motion.step(step);
        if (!moved) return {};
        set[rank].lanes[lane].append(*moved);
      }
    }
  }
  return set;
}

/// Damage to all groups alike, which no comparison of ranks shows.
TEST(VerifySymmetric, RejectsEveryRegularDamageThatARunOfAllRejects) {
  int rejected = 0;
  int accepted = 0;
  int strict = 0;
  for (const Sample& sample : symmetric_samples()) {
    for (const Mutation& mutation : mutations_of(sample.set)) {
      if (mutation.rank >= static_cast<std::size_t>(sample.symmetry.size)) continue;
      const Set mutant = spread(sample, mutation);
      if (mutant.empty()) continue;
      const Status all = verify(mutant).status();
      const Status folded = by_symmetry(mutant, sample.symmetry);
      ++(folded.ok() ? accepted : all.ok() ? strict : rejected);
      ASSERT_TRUE(all.ok() || !folded.ok())
          << sample.name << ", " << mutation.kind << " at lane " << mutation.lane << " step "
          << mutation.step << ": accepted, but " << all.text();
    }
  }
  std::printf("%d rejected, %d accepted, %d rejected although a run of all ranks goes well\n",
              rejected, accepted, strict);
  EXPECT_GT(rejected, 1000);
  EXPECT_LT(strict, rejected / 20);
}

TEST(VerifySymmetric, NamesTheRankThatIsNotAsTheOthers) {
  for (const Sample& sample : symmetric_samples()) {
    const auto size = static_cast<std::size_t>(sample.symmetry.size);
    if (sample.set.size() == size) continue;  // one group has nobody to be compared with
    for (const Mutation& mutation : mutations_of(sample.set)) {
      Set mutant = sample.set;
      mutation.apply(mutant);
      if (mutant == sample.set) continue;
      const Status status = by_symmetry(mutant, sample.symmetry);
      ASSERT_FALSE(status.ok()) << sample.name << ", " << mutation.kind;
      if (mutation.rank < size) continue;  // then it is the others that differ
      EXPECT_EQ(status.rank(), static_cast<Rank>(mutation.rank)) << status.text();
    }
  }
  Set set = samples::ring_all_reduce(5);
  samples::change(set[3].lanes[0], [](std::vector<Step>& steps) { steps[4].finish = false; });
  EXPECT_THAT(by_symmetry(set, kShift).text(),
              HasSubstr("rank 3 is not what rank 0 is, moved by 3: lane 0 step 4 (from rank 2, "));
}

TEST(VerifySymmetric, KnowsWhatHasNoSymmetry) {
  EXPECT_FALSE(by_symmetry(samples::tree_broadcast(4, 0, 1), kShift).ok());
  EXPECT_FALSE(by_symmetry(samples::ring_all_reduce(5), {Symmetry::Kind::shift, 2}).ok());
  EXPECT_FALSE(by_symmetry(samples::ring_all_reduce(5), {Symmetry::Kind::shift, 0}).ok());
  EXPECT_FALSE(by_symmetry(samples::ring_all_gather(6), kExclusiveOr).ok());
  EXPECT_FALSE(by_symmetry(samples::ring_all_gather(8), kExclusiveOr).ok());
}

/// Steps that no proof would pass are refused before they are moved: a step that no motion can move
/// must not be moved, however it is damaged.
TEST(VerifySymmetric, RefusesStepsThatAreNoneBeforeItMovesThem) {
  using Damage = void (*)(Schedule&);
  struct Case {
    const char* text;  ///< of the failure
    Damage damage;
  };
  for (const Case& of : {
           Case{"has operands, but no chunks (count 0)",
                [](Schedule& s) {
                  samples::change(s.lanes[0], [](auto& steps) {
                    for (Step& step : steps) step.count = 0;
                  });
                }},
           Case{"of 0 parts", [](Schedule& s) { s.chunks.parts = 0; }},
           Case{"not a rank",
                [](Schedule& s) {
                  samples::change(s.lanes[0], [](auto& steps) {
                    for (Step& step : steps) step.target = 1 << 30;
                  });
                }},
           Case{"such chunks",
                [](Schedule& s) {
                  samples::change(s.lanes[0], [](auto& steps) {
                    for (Step& step : steps) {
                      for (Operand* operand : {&step.from, &step.with, &step.into}) {
                        if (operand->present()) operand->chunk = 0xfffffff0;
                      }
                    }
                  });
                }},
       }) {
    for (const Sample& sample : symmetric_samples()) {
      if (sample.set[0].spec.collective == Collective::barrier) continue;
      Set all = sample.set, first = sample.set;
      std::for_each(all.begin(), all.end(), of.damage);
      of.damage(first[0]);
      for (const Set& damaged : {all, first}) {
        EXPECT_THAT(by_symmetry(damaged, sample.symmetry).text(), HasSubstr(of.text))
            << sample.name;
      }
    }
  }
}

/// However a lane is cut into repeats, its image is the same steps.
TEST(VerifySymmetric, ComparesStepsNotRepeats) {
  const Rank n = 40;
  Set set;
  for (Rank rank = 0; rank < n; ++rank) {
    set.push_back(start_schedule("direct", {Collective::all_gather, n, 0}, rank, 1));
    LaneBuilder lane(set.back().lanes[0]);
    const auto index = [](Rank of) { return static_cast<std::uint32_t>(of); };
    lane.copy(input(0), output(index(rank)));
    const auto exchange = [&](Rank i) {
      lane.send(output(index(rank)), (rank + i) % n);
      lane.receive((rank + n - i) % n, output(index((rank + n - i) % n)));
    };
    if (rank % 3 == 0) {
      for (Rank i = 1; i < n; ++i) exchange(i);
    } else {
      lane.repeat(1, 7 + rank % 11, exchange);
      lane.repeat(7 + rank % 11, n, exchange);
    }
  }
  EXPECT_EQ(by_symmetry(set, kShift).text(), "ok");
  // A step in the middle of a repeat.
  for (const std::size_t step : {10U, 41U, 64U, 78U}) {
    Set other = set;
    const Rank source = other[1].lanes[0][step].source;
    samples::change(other[1].lanes[0], [&](auto& steps) { steps[step].source = (source + 1) % n; });
    EXPECT_FALSE(by_symmetry(other, kShift).ok());
  }
}

}  // namespace
}  // namespace coll
