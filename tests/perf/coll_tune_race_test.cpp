// SPDX-License-Identifier: Apache-2.0
// What coll-tune concludes from what it measured.
#include "coll_tune/coll_tune_race.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "coll_tune/coll_tune_report.hpp"

namespace perf {
namespace {

using coll::Collective;

coll::World world_of(coll::Rank ranks) {
  coll::World world;
  world.layout = coll::Layout::flat(ranks);
  return world;
}

Contender contender(const char* recipe, std::vector<double> rounds, double predicted_us = 1) {
  return {*coll::read_recipe(recipe), {}, predicted_us, false, false, std::move(rounds)};
}

/// Of all_reduce of 1 KiB; the model chose `ring`.
Race race_of(std::vector<Contender> contenders) {
  Race race{Collective::all_reduce, 1024, std::move(contenders), {"ring"}, {}};
  return race;
}

TEST(TuneRace, MedianAndNoiseAreThoseOfTheMiddle) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 100}), 3);
  EXPECT_EQ(noise({3}), 0);
  EXPECT_EQ(noise({5, 1, 2, 3, 4}), 1);
  EXPECT_EQ(noise({1000, 1, 2, 3, 4}), 1);
}

TEST(TuneRace, EqualSchedulesRunOnceAndTheModelsChoiceIsAmongThem) {
  for (const coll::Rank ranks : {2, 3, 8}) {
    const coll::World world = world_of(ranks);
    for (const Collective collective : {Collective::all_reduce, Collective::broadcast,
                                        Collective::all_to_all, Collective::barrier}) {
      const Race race = line_up(world, collective, 4096);
      std::size_t named = 0, able = 0;
      for (const Contender& each : race.contenders) named += 1 + each.same.size();
      for (const coll::Algorithm& algorithm : coll::algorithms())
        able += algorithm.competes({collective, ranks, 0}, world.layout) ? 1U : 0U;
      EXPECT_LE(named, able);
      EXPECT_GE(named, 2U);
      EXPECT_TRUE(race.of(race.by_model).kept);
      EXPECT_EQ(race.by_table, std::nullopt);
      if (ranks == 2 && collective == Collective::broadcast) {
        EXPECT_LT(race.contenders.size(), named) << "a chain of two is a tree";
      }
    }
  }
}

TEST(TuneRace, WhatATableWouldChooseRunsToTheEndToo) {
  coll::World world = world_of(8);
  const Race untuned = line_up(world, Collective::all_reduce, 1024);
  const std::string other =
      untuned.by_model.text() == "chain" ? "ring" : "chain";  // slow: the model would not
  world.tuning = {{Collective::all_reduce, 1024, {}, "2026", {{{other}, 1, 0}}}};
  world.algorithm = "binomial";  // a knob plays no part
  const Race race = line_up(world, Collective::all_reduce, 1024);
  EXPECT_EQ(race.by_model, untuned.by_model);
  ASSERT_TRUE(race.by_table);
  EXPECT_EQ(race.by_table->text(), other);
  EXPECT_TRUE(race.of(*race.by_table).kept);
}

TEST(TuneRace, OnlyThoseFarBehindDropOut) {
  Race race =
      race_of({contender("ring", {10, 10, 10, 10, 10}), contender("two_shot", {12, 12, 12, 12, 12}),
               contender("chain", {20, 20, 20, 20, 20}), contender("binomial", {5, 14, 20, 14, 5}),
               contender("one_shot", {20, 20, 20, 20, 20})});
  race.contenders[4].kept = true;
  drop_hopeless(race);
  std::string out;
  for (const Contender& each : race.contenders) out += each.out ? '1' : '0';
  EXPECT_EQ(out, "00100");
  Race early = race_of({contender("ring", {10, 10}), contender("chain", {20, 20})});
  drop_hopeless(early);
  EXPECT_FALSE(early.contenders[1].out);
}

TEST(TuneRace, IsDecidedWhereTheFastestIsApartByMoreThanTheNoise) {
  const auto ring = contender("ring", {9, 10, 10, 10, 11});
  EXPECT_TRUE(is_decided(race_of({ring, contender("chain", {12, 12, 12, 12, 12})})));
  EXPECT_FALSE(is_decided(race_of({ring, contender("chain", {8, 8, 11, 14, 14})})));
}

TEST(TuneRace, RegretIsTheChoicesTimeOverTheFastest) {
  Race race = race_of({contender("ring", {12, 12}, 6), contender("chain", {10, 10}, 20)});
  race.contenders[1].same = {{"binomial"}};
  EXPECT_NEAR(race.regret({"ring"}), 0.2, 1e-12);
  EXPECT_EQ(race.regret({"binomial"}), 0);
  Race good = race_of({contender("ring", {10, 10}, 30)});
  race.by_table = {"binomial"};
  const Regret model = regret_of({race, good}, false), table = regret_of({race, good}, true);
  EXPECT_NEAR(model.median, 0.1, 1e-12);
  EXPECT_NEAR(model.worst, 0.2, 1e-12);
  EXPECT_EQ(table.worst, 0);
  EXPECT_NEAR(model.error_median, 2.5, 1e-12);  // half the time, and three times it
  EXPECT_NEAR(model.error_worst, 3, 1e-12);
  const std::string text = regret_text({race, good}, "2 ranks", "t.json");
  EXPECT_NE(text.find("regret median  10.0 %, worst   20.0 %"), std::string::npos) << text;
}

TEST(TuneRace, APointHasEveryNameFastestFirstAndNoLessNoiseThanRunsDiffer) {
  Race race =
      race_of({contender("ring", {12.3456, 12.3456}), contender("chain", {8, 9, 10, 11, 12})});
  race.contenders[1].same = {{"binomial"}};
  const coll::TuningPoint point = to_point(race, {2, "1x2", "shm", 1}, "2026-11-21");
  EXPECT_EQ(point.collective, Collective::all_reduce);
  EXPECT_EQ(point.bytes, 1024U);
  ASSERT_EQ(point.timings.size(), 3U);
  EXPECT_EQ(point.timings[0], (coll::Timing{{"chain"}, 10, 1}));
  EXPECT_EQ(point.timings[1], (coll::Timing{{"binomial"}, 10, 1}));
  EXPECT_EQ(point.timings[2].us, 12.35);
  EXPECT_NEAR(point.timings[2].noise_us, 0.1235, 1e-4);
  const std::string text = to_text(coll::TuningTable{"1", "here", "0.1.0", {point}});
  EXPECT_NE(text.find("chain = binomial 10.0 (+- 1.00); ring 12.3 (+- 0.123)"), std::string::npos)
      << text;
}

/// As it comes from the race between algorithms, `fastest` in front of the others.
Race raced(const coll::World& world, std::uint64_t bytes, const std::string& fastest,
           double others_us = 12) {
  Race race = line_up(world, Collective::all_reduce, bytes);
  for (Contender& each : race.contenders)
    each.rounds = {each.recipe.text() == fastest ? 10. : others_us};
  return race;
}

TEST(TuneRace, TheFastestAndTheModelsChoiceRunInOtherCutsEachPlanOnce) {
  coll::World world = world_of(4);
  const std::uint64_t bytes = 1 << 20;
  const std::string model = line_up(world, Collective::all_reduce, bytes).by_model.text();
  const std::string other = model == "ring" ? "two_shot" : "ring";
  for (const std::string& fastest : {model, other}) {
    const Race cuts = line_up_cuts(world, raced(world, bytes, fastest));
    EXPECT_EQ(cuts.bytes, bytes);
    std::size_t uncut = 0;
    std::vector<std::string> plans;
    for (const Contender& each : cuts.contenders) {
      EXPECT_TRUE(each.recipe.algorithm == fastest || each.recipe.algorithm == model);
      EXPECT_EQ(each.kept, each.recipe.cut == coll::Cut{}) << each.recipe.text();
      uncut += each.kept ? 1 : 0;
      world.algorithm = each.recipe.text();
      const auto plan = make_plan(world, {{Collective::all_reduce, 4, 0}, coll::size_class(bytes)});
      ASSERT_TRUE(plan.ok());
      plans.push_back(coll::Recipe{each.recipe.algorithm, {plan->lanes, plan->slice_bytes}}.text());
    }
    world.algorithm.clear();
    EXPECT_EQ(uncut, fastest == model ? 1U : 2U);
    EXPECT_GE(cuts.contenders.size(), 6U);
    std::sort(plans.begin(), plans.end());
    EXPECT_EQ(std::adjacent_find(plans.begin(), plans.end()), plans.end());
    EXPECT_EQ(cuts.contenders.front().recipe.text(), fastest);
  }
}

TEST(TuneRace, AModelsChoiceFarBehindRunsInNoOtherCuts) {
  const coll::World world = world_of(4);
  const std::string model = line_up(world, Collective::all_reduce, 1 << 20).by_model.text();
  const std::string other = model == "ring" ? "two_shot" : "ring";
  const Race cuts = line_up_cuts(world, raced(world, 1 << 20, other, 20));
  EXPECT_GE(cuts.contenders.size(), 4U);
  for (const Contender& each : cuts.contenders) EXPECT_EQ(each.recipe.algorithm, other);
}

TEST(TuneRace, WhereOneSliceHoldsAllThereIsNothingToCut) {
  const coll::World world = world_of(4);
  const std::string model = line_up(world, Collective::all_reduce, 4096).by_model.text();
  EXPECT_TRUE(line_up_cuts(world, raced(world, 4096, model)).contenders.empty());
}

TEST(TuneRace, ATablesCutRunsBesideItsAlgorithmAndNotAgain) {
  coll::World world = world_of(4);
  const std::uint64_t bytes = 1 << 20;
  const std::string model = line_up(world, Collective::all_reduce, bytes).by_model.text();
  const std::string other = model == "ring" ? "two_shot" : "ring";
  const coll::Recipe cut{other, {4, 16384}};
  world.tuning = {{Collective::all_reduce, bytes, {}, "2026", {{cut, 1, 0}, {{model}, 9, 0}}}};
  const Race race = raced(world, bytes, other);
  ASSERT_EQ(race.by_table, cut);
  EXPECT_EQ(race.of(cut).recipe, cut);
  EXPECT_TRUE(race.of(cut).kept);
  EXPECT_TRUE(race.of({other}).kept);
  for (const Contender& each : line_up_cuts(world, race).contenders) EXPECT_NE(each.recipe, cut);
}

TEST(TuneRace, CutsDoNotJoinFromARaceInWhichTheirAlgorithmWasFarSlower) {
  Race race = race_of({contender("ring", {10, 10})});
  join(race, race_of({contender("ring", {14, 14}), contender("ring/2x64K", {9, 9})}));
  EXPECT_EQ(race.contenders.size(), 1U);
}

TEST(TuneRace, CutsJoinAtTheSpeedOfTheRaceBetweenAlgorithms) {
  Race race = race_of({contender("ring", {10, 10}), contender("chain", {12, 12})});
  Race cuts = race_of({contender("ring", {10, 15}), contender("chain", {15, 15}),
                       contender("ring/2x64K", {8, 12}), contender("chain/2x64K", {12.5, 12.5}),
                       contender("chain/1x16K", {90})});
  cuts.contenders[4].out = true;
  join(race, cuts);
  ASSERT_EQ(race.contenders.size(), 5U);
  EXPECT_EQ(race.of({"ring"}).us(), 10);                            // is measured already
  EXPECT_NEAR(race.of({"ring", {2, 65536}}).noise_us(), 0, 1e-12);  // the machine's, not the cut's
  EXPECT_NEAR(race.of({"ring", {2, 65536}}).us(), 8, 1e-12);
  EXPECT_NEAR(race.of({"chain", {2, 65536}}).us(), 10, 1e-12);
  EXPECT_EQ(race.fastest().recipe.text(), "ring/2x65536");
  EXPECT_NEAR(race.regret(race.by_model), 0.25, 1e-12);
  const std::string text = regret_text({race}, "2 ranks", "");
  EXPECT_NE(text.find(" ring/2x65536 "), std::string::npos) << text;
  const std::string json = regret_json({race}, {}, "");
  EXPECT_NE(json.find("\"fastest\": \"ring/2x65536\""), std::string::npos) << json;

  const coll::TuningPoint point = to_point(race, {}, "2026");
  std::string names;
  for (const coll::Timing& each : point.timings) names += each.recipe.text() + " ";
  EXPECT_EQ(names, "ring/2x65536 ring chain/2x65536 chain ");  // not what dropped out
}

}  // namespace
}  // namespace perf
