// SPDX-License-Identifier: Apache-2.0
// Algorithms in which all ranks do the same are proved for 65,536 of them. (Trees are in
// algorithms_test.cpp.)
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "built.hpp"
#include "schedule/proof/verify_symmetric.hpp"

namespace coll {
namespace {

using enum Collective;
constexpr Rank kRanks = 65536;
constexpr Symmetry kShift{Symmetry::Kind::shift, 1};
constexpr Symmetry kPairShift{Symmetry::Kind::shift, 2};
constexpr Symmetry kExclusiveOr{Symmetry::Kind::exclusive_or, 1};

struct Regular {
  const char* algorithm;
  Collective collective;
  Symmetry symmetry;
};
constexpr Regular kRegular[] = {
    {"ring", all_reduce, kShift},
    {"ring", reduce_scatter, kShift},
    {"ring", all_gather, kShift},
    {"pairwise", all_to_all, kShift},
    {"pairwise", reduce_scatter, kShift},
    {"linear", all_to_all, kShift},
    {"one_shot", all_gather, kShift},
    {"one_shot", barrier, kShift},
    {"two_shot", all_reduce, kShift},
    {"dissemination", barrier, kShift},
    {"neighbour_exchange", all_gather, kPairShift},
    {"recursive_doubling", all_reduce, kExclusiveOr},
    {"recursive_doubling", all_gather, kExclusiveOr},
    {"recursive_doubling", barrier, kExclusiveOr},
    {"recursive_halving", reduce_scatter, kExclusiveOr},
    {"recursive_halving_doubling", all_reduce, kExclusiveOr},
};

Result<Verified> proof(const Regular& regular, Rank ranks) {
  const CollectiveSpec spec{regular.collective, ranks, 0};
  const Layout layout = Layout::flat(ranks);
  const Algorithm& algorithm = *find_algorithm(regular.algorithm);
  return verify_symmetric([&](Rank rank) { return algorithm.build(spec, layout, rank); },
                          regular.symmetry);
}

class Symmetric : public testing::TestWithParam<Regular> {};

/// Proved, and costs what the algorithm says.
TEST_P(Symmetric, IsProvedFor65536Ranks) {
  const auto result = proof(GetParam(), kRanks);
  ASSERT_TRUE(result.ok()) << result.status().text();
  const CollectiveSpec spec{GetParam().collective, kRanks, 0};
  const Cost cost = find_algorithm(GetParam().algorithm)->cost(spec, Layout::flat(kRanks));
  EXPECT_EQ(cost.rounds, result->rounds);
  EXPECT_EQ(cost.steps, result->steps_most);
  EXPECT_EQ(cost.scratch_chunks, result->scratch_most);
  EXPECT_EQ(cost.message_chunks, std::max(1U, result->message_most));
  EXPECT_NEAR(cost.sent * cost.chunks, double(result->chunks_sent_most), 1e-3);
  EXPECT_NEAR(cost.received * cost.chunks, double(result->chunks_received_most), 1e-3);
  EXPECT_NEAR(cost.reduced * cost.chunks, double(result->chunks_reduced_most), 1e-3);
}

/// Also where the number of ranks is a prime, or so small that ends meet.
TEST_P(Symmetric, IsProvedForOtherNumbers) {
  for (const Rank ranks : {2, 3, 4, 6, 8, 31, 64, 8191}) {
    const bool power = (ranks & (ranks - 1)) == 0;
    if (GetParam().symmetry.kind == Symmetry::Kind::exclusive_or && !power) continue;
    if (ranks % GetParam().symmetry.size != 0) continue;
    const auto result = proof(GetParam(), ranks);
    EXPECT_TRUE(result.ok()) << ranks << " ranks: " << result.status().text();
  }
}

/// Of 65,536 rings of 131,071 steps, one step is wrong, or the same in each.
TEST(SymmetricDamage, IsFound) {
  const Layout layout = Layout::flat(kRanks);
  const auto verdict = [&](const std::function<void(Schedule&)>& damage) {
    return verify_symmetric(
               [&](Rank rank) {
                 Schedule schedule =
                     find_algorithm("ring")->build({all_reduce, kRanks, 0}, layout, rank);
                 damage(schedule);
                 return schedule;
               },
               kShift)
        .status();
  };
  const Status one = verdict([](Schedule& schedule) {
    if (schedule.rank != 40'000) return;
    std::vector<Step> steps(schedule.lanes[0].begin(), schedule.lanes[0].end());
    steps[50'000].with.chunk ^= 1;
    schedule.lanes[0] = Lane(std::move(steps));
  });
  EXPECT_EQ(one.rank(), 40'000) << one.text();
  // All leave out the last step: each waits for a credit, or a message is left over.
  const Status all = verdict(
      [](Schedule& schedule) { schedule.lanes[0].take_from(schedule.lanes[0].size() - 1); });
  EXPECT_FALSE(all.ok());
  // All finish the wrong step.
  const Status early = verdict([](Schedule& schedule) {
    Lane& lane = schedule.lanes[0];
    const Lane before = lane;
    lane = Lane();
    for (const Lane::Repeat& repeat : before.repeats()) {
      std::vector<Step> body = repeat.body;
      for (Step& step : body) step.finish = step.with.present() && !step.finish;
      if (repeat.times > 1) {
        lane.append(std::move(body), repeat.strides, repeat.times);
      } else {
        for (const Step& step : body) lane.append(step);
      }
    }
  });
  EXPECT_NE(early.text().find("goes on with a reduction that is finished"), std::string::npos)
      << early.text();
}

/// Hosts of 8 ranks, a rail for each.
Status proof_on_hosts(const char* algorithm, Collective collective, Rank hosts,
                      Symmetry::Kind kind) {
  constexpr Rank kEach = 8;
  std::vector<Place> places;
  for (Rank rank = 0; rank < hosts * kEach; ++rank) {
    places.push_back({.host = rank / kEach, .numa = -1, .island = 0, .rail = rank % kEach});
  }
  const Layout layout = make_layout(places);
  const CollectiveSpec spec{collective, hosts * kEach, 0};
  const auto build = [&](Rank rank) {
    return find_algorithm(algorithm)->build(spec, layout, rank);
  };
  return verify_symmetric(build, {kind, kEach}).status();
}

TEST(SymmetricHosts, AreProvedFor4096Ranks) {
  using enum Symmetry::Kind;
  EXPECT_EQ(proof_on_hosts("hierarchical_ring", all_reduce, 512, shift).text(), "ok");
  EXPECT_EQ(proof_on_hosts("hierarchical_tree", all_reduce, 512, exclusive_or).text(), "ok");
  EXPECT_EQ(proof_on_hosts("hierarchical_tree", all_gather, 512, exclusive_or).text(), "ok");
  EXPECT_EQ(proof_on_hosts("hierarchical_tree", barrier, 512, shift).text(), "ok");
}

TEST(SymmetricHosts, AreProvedForSixtyFiveThousandRanks) {
  EXPECT_EQ(proof_on_hosts("hierarchical_ring", all_reduce, 8192, Symmetry::Kind::shift).text(),
            "ok");
}

INSTANTIATE_TEST_SUITE_P(All, Symmetric, testing::ValuesIn(kRegular), [](const auto& test) {
  return std::string(test.param.algorithm) + "_for_" + std::string(name_of(test.param.collective));
});

}  // namespace
}  // namespace coll
