// SPDX-License-Identifier: Apache-2.0
// Every algorithm's schedules are right, for all rank counts and roots, and cost what the algorithm
// says.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "proved.hpp"
#include "schedule/proof/block_lengths.hpp"

namespace coll {
namespace {

constexpr Rank kEveryRoot = 16;  ///< up to here all roots are tried
#ifdef TRY_LESS
constexpr Rank kEveryCount = 24;
constexpr Rank kLarge[] = {33, 64, 127};
#else
constexpr Rank kEveryCount = 64;  ///< up to here all rank counts are
constexpr Rank kLarge[] = {65, 96, 100, 127, 255, 257, 1000};
#endif
/// These are left out where all ranks together take more steps than this.
constexpr std::uint64_t kMostSteps = 150'000;
constexpr Rank kLargest = 1025;  ///< never left out; in a test of its own, since it takes long

struct Case {
  const Algorithm* algorithm;
  Collective collective;
  SumOrder order;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Algorithm& algorithm : algorithms()) {
    for (int i = 0; i < kCollectives; ++i) {
      const auto add = [&](SumOrder order, auto... counts) {
        const auto serves = [&](Rank ranks) {
          const CollectiveSpec spec{collective_at(i), ranks, 0, false, order};
          return algorithm.serves(spec, Layout::flat(ranks));
        };
        if ((serves(counts) || ...)) cases.push_back({&algorithm, collective_at(i), order});
      };
      add(SumOrder::any, 1, 2);
      if (reduces(collective_at(i))) add(SumOrder::tree, 1, 3, 4);
      if (reduces(collective_at(i))) add(SumOrder::sided_tree, 2, 3, 4);
    }
  }
  return cases;
}

std::vector<Rank> roots(Collective collective, Rank ranks) {
  if (!has_root(collective) || ranks == 1) return {0};
  if (ranks > kEveryCount) return {0, ranks / 3};
  std::set<Rank> some{0, 1, ranks / 2, ranks - 1, ranks * 5 / 8};
  for (Rank root = 0; ranks <= kEveryRoot && root < ranks; ++root) some.insert(root);
  return {some.begin(), some.end()};
}

void prove(const Algorithm& algorithm, const CollectiveSpec& spec) {
  prove(algorithm, spec, Layout::flat(spec.ranks));
}

class Algorithms : public testing::TestWithParam<Case> {
 protected:
  template <class Check>
  void for_each_spec(Check check) const {
    const auto [algorithm, collective, order] = GetParam();
    std::vector<Rank> counts;
    for (Rank ranks = 1; ranks <= kEveryCount; ++ranks) counts.push_back(ranks);
    counts.insert(counts.end(), std::begin(kLarge), std::end(kLarge));
    for (const Rank ranks : counts) {
      for (const Rank root : roots(collective, ranks)) {
        const CollectiveSpec spec{collective, ranks, root, false, order};
        if (!algorithm->serves(spec, Layout::flat(spec.ranks))) continue;
        const auto steps = std::uint64_t{algorithm->cost(spec, Layout::flat(spec.ranks)).steps} *
                           std::uint64_t(ranks);
        if (ranks > kEveryCount && steps > kMostSteps) continue;
        SCOPED_TRACE(describe(*algorithm, spec));
        check(*algorithm, spec);
        if (HasFailure()) return;  // one message is enough
      }
    }
  }
};

TEST_P(Algorithms, AreProvedAndCostWhatTheySay) {
  for_each_spec(
      [](const Algorithm& algorithm, const CollectiveSpec& spec) { prove(algorithm, spec); });
}

TEST_P(Algorithms, AreProvedForOverAThousandRanks) {
  const auto [algorithm, collective, order] = GetParam();
  // Without a demanded order, and so without those that are there for it: they take long.
  if (order != SumOrder::any || algorithm->for_order_only) return;
  CollectiveSpec spec{collective, kLargest, has_root(collective) ? kLargest / 3 : 0, false, order};
  const auto serves = [&, of = algorithm] { return of->serves(spec, Layout::flat(spec.ranks)); };
  if (!serves()) spec.ranks -= 1;
  if (!serves()) return;  // those for one rank, or two
  SCOPED_TRACE(describe(*algorithm, spec));
  prove(*algorithm, spec);
}

/// Those in which all ranks together take few enough steps; see many_ranks_test.cpp for others.
TEST_P(Algorithms, AreProvedForSixtyFiveThousandRanks) {
  const auto [algorithm, collective, order] = GetParam();
  if (order != SumOrder::any) return;
  const auto is = [name = algorithm->name](auto... names) { return ((name == names) || ...); };
  const bool data = collective != Collective::all_gather;
  if (!is("chain", "binomial", "knomial_4", "knomial_8", "double_binary_tree") &&
      !(is("linear") && has_root(collective)) && !(is("recursive_doubling") && data)) {
    return;
  }
  constexpr Rank kPrime = 65521;
  const CollectiveSpec spec{collective, kPrime, has_root(collective) ? kPrime / 3 : 0};
  SCOPED_TRACE(describe(*algorithm, spec));
  prove(*algorithm, spec);
}

TEST_P(Algorithms, ArePureAndNameEachOther) {
  for_each_spec([](const Algorithm& algorithm, const CollectiveSpec& spec) {
    if (spec.ranks > kEveryCount) return;
    const std::vector<Schedule> schedules = build_all(algorithm, spec);
    EXPECT_TRUE(schedules == build_all(algorithm, spec));
    std::vector<std::set<std::pair<Rank, std::size_t>>> named;
    for (const Schedule& schedule : schedules) named.push_back(connections(schedule));
    for (const Schedule& schedule : schedules) {
      if (!schedule.lanes[0].empty()) {
        EXPECT_EQ(schedule.algorithm, algorithm.name);
      }
      for (const auto& [peer, lane] : named[static_cast<std::size_t>(schedule.rank)]) {
        EXPECT_TRUE(named[static_cast<std::size_t>(peer)].contains({schedule.rank, lane}))
            << "rank " << schedule.rank << " names " << peer << " on lane " << lane;
      }
    }
  });
}

/// Parts of a block differ in length, so the executor asks that a step's operands, scratch
/// included, are all of one part.
TEST_P(Algorithms, KeepPartsApart) {
  for_each_spec([](const Algorithm& algorithm, const CollectiveSpec& spec) {
    if (spec.ranks > kEveryCount) return;
    for (const Schedule& schedule : build_all(algorithm, spec)) {
      for (const Lane& lane : schedule.lanes) {
        for (const Step& step : lane) {
          std::set<std::uint32_t> parts;
          for (const Operand& operand : {step.from, step.with, step.into}) {
            if (operand.present()) parts.insert(operand.chunk % schedule.chunks.parts);
          }
          EXPECT_LE(parts.size(), 1U);
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Algorithms, testing::ValuesIn(all_cases()), [](const auto& test) {
  return std::string(test.param.algorithm->name) + "_for_" +
         std::string(name_of(test.param.collective)) +
         (test.param.order == SumOrder::tree         ? "_in_tree_order"
          : test.param.order == SumOrder::sided_tree ? "_in_rank_order"
                                                     : "");
});

TEST(AlgorithmList, ServesEveryCollectiveWithAnyRankCount) {
  for (int i = 0; i < kCollectives; ++i) {
    const Collective collective = collective_at(i);
    const bool pair = collective == Collective::send || collective == Collective::recv;
    for (Rank ranks = pair ? 2 : 1; ranks <= 1025; ++ranks) {
      const CollectiveSpec spec{collective, ranks, 0};
      EXPECT_TRUE(std::ranges::any_of(algorithms(),
                                      [&](const Algorithm& algorithm) {
                                        return algorithm.supports(spec, Layout::flat(spec.ranks));
                                      }))
          << name_of(collective) << " of " << ranks << " ranks";
    }
  }
}

/// With blocks of any lengths, too.
TEST(AlgorithmList, ServesTheOrderOfTheTreeWithAnyRankCountAndRoot) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter}) {
    const bool blocks = collective == Collective::reduce_scatter;
    for (Rank ranks = 1; ranks <= 1025; ++ranks) {
      for (const Rank root : {0, has_root(collective) ? ranks - 1 : 0}) {
        for (const SumOrder order : {SumOrder::tree, SumOrder::sided_tree}) {
          const CollectiveSpec spec{collective, ranks, root, blocks, order};
          EXPECT_TRUE(std::ranges::any_of(algorithms(),
                                          [&](const Algorithm& algorithm) {
                                            return algorithm.serves(spec, Layout::flat(ranks));
                                          }))
              << name_of(collective) << " of " << ranks << " ranks, root " << root;
        }
      }
    }
  }
}

/// Those that never say that they keep the order do not keep it.
TEST(AlgorithmList, KeepsTheOrderOfTheTreeWhereItSaysSo) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective :
         {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter}) {
      bool supports = false, serves = false, proved = true;
      for (Rank ranks = 5; ranks <= 16; ++ranks) {
        const Layout layout = Layout::flat(ranks);
        for (const Rank root : roots(collective, ranks)) {
          const CollectiveSpec spec{collective, ranks, root, false, SumOrder::tree};
          if (!algorithm.supports(spec, layout)) continue;
          supports = true;
          if (algorithm.serves(spec, layout)) {
            serves = true;
          } else {
            proved = proved && verify(build_all(algorithm, spec)).ok();
          }
        }
      }
      // Some keep it by chance for some numbers of ranks.
      if (supports && !serves) {
        EXPECT_FALSE(proved) << algorithm.name << " " << name_of(collective);
      }
    }
  }
}

/// Scratch of a reduce_scatter is as long as the rank's own block, and may stand for no other.
TEST(AlgorithmList, ScratchOfUnequalBlocksIsOfTheOwnOne) {
  const auto verdict = [](auto change, Collective collective = Collective::reduce_scatter) {
    const bool sums = collective == Collective::reduce_scatter;
    const CollectiveSpec spec{collective, 4, 0, true, sums ? SumOrder::tree : SumOrder::any};
    std::vector<Schedule> schedules =
        build_all(*find_algorithm(sums ? "one_shot_ordered" : "one_shot"), spec);
    EXPECT_TRUE(verify_block_lengths(schedules).ok());
    Lane changed;
    for (Step step : schedules[0].lanes[0]) {
      change(step);
      changed.append(step);
    }
    schedules[0].lanes[0] = changed;
    return verify_block_lengths(schedules).text();
  };
  const auto says = [](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), text.npos) << text;
  };
  says(verdict([](Step& step) {  // two chunks of a block that is one
         if (step.into.space == Space::scratch) step.count = 2;
       }),
       "names scratch of more than one block");
  says(verdict([](Step& step) {  // the own block's sum as another's
         if (step.sends()) step.from = scratch(0);
       }),
       "sends blocks that its receiver does not name");
  says(verdict([](Step& step) {  // another's block added to the own sum, without a message
         if (!step.sends() && !step.receives()) step.with = input(1);
       }),
       "combines or copies blocks that may differ in length");
  says(verdict(
           [](Step& step) {  // of other collectives it is of no length
             if (step.receives()) step.into = scratch(0);
           },
           Collective::all_gather),
       "names no block of the user's buffers");
}

/// Exactly those serve unequal blocks whose messages both ends can measure.
TEST(AlgorithmList, ServesUnequalBlocksWhereBothEndsKnowTheirLengths) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Collective collective :
         {Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all,
          Collective::gather, Collective::scatter}) {
      bool proved = true, serves = false, supports = false;
      for (Rank ranks = 1; ranks <= 20; ++ranks) {
        const Layout layout = Layout::flat(ranks);
        for (const Rank root : roots(collective, ranks)) {
          if (!algorithm.supports({collective, ranks, root}, layout)) continue;
          supports = true;
          serves = serves || algorithm.serves({collective, ranks, root, true}, layout);
          const auto schedules = build_all(algorithm, {collective, ranks, root});
          proved = proved && verify_block_lengths(schedules).ok();
        }
      }
      if (supports) {
        EXPECT_EQ(serves, proved) << algorithm.name << " " << name_of(collective);
      }
    }
  }
}

TEST(AlgorithmList, ServesUnequalBlocksWithAnyRankCount) {
  for (const Collective collective :
       {Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all,
        Collective::gather, Collective::scatter}) {
    for (Rank ranks = 1; ranks <= 1025; ++ranks) {
      const CollectiveSpec spec{collective, ranks, 0, true};
      EXPECT_TRUE(std::ranges::any_of(
          algorithms(),
          [&](const Algorithm& algorithm) { return algorithm.serves(spec, Layout::flat(ranks)); }))
          << name_of(collective) << " of " << ranks << " ranks";
    }
  }
}

TEST(AlgorithmList, FindsEachByItsOwnName) {
  std::set<std::string_view> names;
  for (const Algorithm& algorithm : algorithms()) {
    EXPECT_TRUE(names.insert(algorithm.name).second) << algorithm.name << " is there twice";
    EXPECT_EQ(find_algorithm(algorithm.name), &algorithm);
    EXPECT_FALSE(algorithm.sentence.empty());
  }
  EXPECT_EQ(find_algorithm("no such"), nullptr);
}

}  // namespace
}  // namespace coll
