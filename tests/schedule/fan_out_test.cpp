// SPDX-License-Identifier: Apache-2.0
// What counts as one message to several peers is one, to the same peers each time.
#include "schedule/fan_out.hpp"

#include <gtest/gtest.h>

#include <set>

#include "collectives/built.hpp"

namespace coll {
namespace {

/// What a lane sends to several: for each message, its first step and those who get it.
struct Staged {
  Step first;
  std::uint32_t fan_out = 0;
  std::set<Rank> readers;
};

std::vector<Staged> staged_by(const Lane& lane, const std::vector<FanOut>& stages) {
  std::vector<Staged> all;
  for (std::size_t index = 0; index < lane.size(); ++index) {
    const Step step = lane[index];
    if (stages[index].readers == 0) continue;
    if (stages[index].first) {
      all.push_back({step, stages[index].readers, {}});
    } else {
      EXPECT_TRUE(index > 0 && stages[index - 1].readers != 0) << "step " << index;
      const Step& first = all.back().first;
      EXPECT_TRUE(step.from == first.into || (step.from == first.from && !first.with.present()));
      EXPECT_EQ(step.count, first.count);
      EXPECT_FALSE(step.receives() || step.with.present() || step.into.present());
    }
    EXPECT_TRUE(all.back().readers.insert(step.target).second) << "step " << index;
  }
  return all;
}

TEST(FanOut, IsOfEqualMessagesToTheSamePeers) {
  for (const Algorithm& algorithm : algorithms()) {
    for (int i = 0; i < kCollectives; ++i) {
      for (Rank ranks = 1; ranks <= 9; ++ranks) {
        const CollectiveSpec spec{collective_at(i), ranks,
                                  has_root(collective_at(i)) ? ranks / 2 : 0};
        if (!algorithm.supports(spec, Layout::flat(spec.ranks))) continue;
        SCOPED_TRACE(describe(algorithm, spec));
        for (const Schedule& schedule : build_all(algorithm, spec)) {
          for (const Lane& lane : schedule.lanes) {
            const std::vector<FanOut> stages = fan_outs(lane);
            ASSERT_EQ(stages.size(), lane.size());
            const std::vector<Staged> all = staged_by(lane, stages);
            for (const Staged& each : all) {
              EXPECT_GT(each.readers.size(), 1U);
              EXPECT_EQ(each.readers.size(), each.fan_out);
              EXPECT_EQ(each.readers, all.front().readers);
            }
          }
        }
      }
    }
  }
}

TEST(FanOut, IsThereWhereItMatters) {
  for (const auto& [algorithm, collective] : {std::pair{"linear", Collective::broadcast},
                                              {"one_shot", Collective::all_gather},
                                              {"one_shot", Collective::all_reduce},
                                              {"two_shot", Collective::all_reduce}}) {
    const Schedule root = build_all(*find_algorithm(algorithm), {collective, 5, 0}).front();
    const auto all = staged_by(root.lanes[0], fan_outs(root.lanes[0]));
    ASSERT_EQ(all.size(), 1U) << algorithm << " for " << name_of(collective);
    EXPECT_EQ(all.front().readers.size(), 4U) << algorithm << " for " << name_of(collective);
  }
}

}  // namespace
}  // namespace coll
