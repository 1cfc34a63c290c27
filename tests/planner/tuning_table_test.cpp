// SPDX-License-Identifier: Apache-2.0
// Measurements of algorithms: which of them count for a call, and what the planner makes of them.
#include "planner/tuning_table.hpp"

#include <gtest/gtest.h>

#include "planner/planner.hpp"

namespace coll {
namespace {

using enum Collective;

const TuningScope kFour{4, "1x4", "shm", 1};

TuningPoint point(std::uint64_t bytes, std::vector<Timing> timings, TuningScope scope = kFour,
                  std::string date = "2026-11-21") {
  return {all_reduce, bytes, std::move(scope), std::move(date), std::move(timings)};
}

/// What is measured of an all_reduce of 4 ranks, fastest first.
std::string order(const std::vector<TuningPoint>& points, std::uint64_t bytes) {
  std::string names;
  for (const Measured& each :
       measured(points, {all_reduce, 4, 0}, Layout::flat(4), size_class(bytes)))
    names.append(names.empty() ? "" : " ").append(each.recipe.text());
  return names;
}

std::string chosen(const std::vector<TuningPoint>& points, std::string_view model) {
  const auto list = measured(points, {all_reduce, 4, 0}, Layout::flat(4), 10);
  const Measured* best = better_than_model(list, *find_algorithm(model));
  return best == nullptr ? "" : best->recipe.text();
}

TEST(TuningTable, TextReadsBackEqual) {
  TuningTable table{"0123456789abcdef", "a \"machine\"\n", "0.1.0", {}, {}};
  table.points.push_back(point(1024, {{{"ring"}, 1.1, 0.1}, {{"two_shot"}, 0.3, 0}}));
  table.points.push_back({barrier, 0, {}, "", {{{"dissemination"}, 0.123456789012345, 1e-3}}});
  table.points.push_back(point(std::uint64_t{1} << 40, {{{"ring"}, 1e9, 1e3}},
                               {65536, "8192x8 interleaved", "tcp", 1.25}));
  table.points.push_back(point(1 << 20, {{{"ring", {2, 65536}}, 1.5, 0.1}, {{"ring"}, 2, 0.1}}));
  table.points.push_back(point(64, {}));  // as a file may have it that nobody measured
  const auto read = read_tuning_json(to_json(table), "text");
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(*read, table);
  table.model = *default_cost_model();
  table.model->constants.memory.alpha_us = 0.0123456789012345;
  const auto fitted = read_tuning_json(to_json(table), "text");
  ASSERT_TRUE(fitted.ok()) << fitted.status().text();
  EXPECT_EQ(*fitted, table);
  EXPECT_EQ(fitted->of_ranks(4).model, table.model) << "it is for any number of ranks";
  const auto empty = read_tuning_json(to_json({}), "text");
  ASSERT_TRUE(empty.ok()) << empty.status().text();
  EXPECT_EQ(*empty, TuningTable{});
}

TEST(TuningTable, ReadsFilesWithoutCutsAndCutsWithSuffixes) {
  const auto timings = [](const std::string& us) {
    const auto read = read_tuning_json(
        R"({"tuning_version": 1, "points": [{"operation":"all_reduce","bytes":8,"us":)" + us +
            "}]}",
        "text");
    EXPECT_TRUE(read.ok()) << read.status().text();
    return read.ok() ? read->points.front().timings : std::vector<Timing>{};
  };
  EXPECT_EQ(timings(R"({"ring":[1.5,0.25],"two_shot":[2,0]})"),
            (std::vector<Timing>{{{"ring"}, 1.5, 0.25}, {{"two_shot"}, 2, 0}}));
  EXPECT_EQ(timings(R"({"ring/2x64K":[1.5,0.25],"of_tomorrow/4x65536":[2,0]})"),
            (std::vector<Timing>{{{"ring", {2, 65536}}, 1.5, 0.25},
                                 {{"of_tomorrow", {4, 65536}}, 2, 0}}));
}

TEST(TuningTable, WhatMakesNoSenseIsAFailureThatNamesTheFile) {
  const std::string good = to_json({"", "", "", {point(1024, {{{"ring"}, 1.5, 0.25}})}});
  ASSERT_TRUE(read_tuning_json(good, "good").ok());
  const auto with = [&](const std::string& old, const std::string& other) {
    std::string text = good;
    EXPECT_NE(text.find(old), std::string::npos) << old;
    return text.replace(text.find(old), old.size(), other);
  };
  for (const std::string& bad :
       {std::string(), std::string("[]"), good.substr(0, good.size() / 2), with("1024", "-1"),
        with("1024", "1.5"), with("1024", "\"1K\""), with("1024", "18446744073709551615"),
        with("all_reduce", "all_redoce"), with("1.5", "0"), with("1.5", "-1"), with("1.5", "1e300"),
        with("0.25", "-0.25"), with("1.5,", ""), with("\"ranks\":4", "\"ranks\":-4"),
        with("\"ranks\":4", "\"ranks\":[]"), with("_version\": 1", "_version\": 99"),
        with("\"us\"", "\"them\""), with("ring", "ring/2y64"), with("ring", "ring/0x64")}) {
    const auto read = read_tuning_json(bad, "tables/bad.json");
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_NE(read.status().text().find("tables/bad.json"), std::string::npos)
        << read.status().text();
  }
}

TEST(TuningTable, TheScopeOfAWorldTellsWorldsApart) {
  EXPECT_EQ(scope_of(Layout::flat(4), true, 0.5), kFour);
  EXPECT_EQ(scope_of(Layout::flat(4), true, 2).ranks_per_core, 2);
  EXPECT_EQ(scope_of(Layout::flat(4), false, 1).transport, "tcp");
  const auto hosts = [](std::vector<std::int64_t> of_rank) {
    std::vector<Place> places;
    for (const std::int64_t host : of_rank) places.push_back({.host = host});
    return scope_of(make_layout(places), false, 1).hosts;
  };
  EXPECT_EQ(hosts({7, 7, 3, 3}), "2x2");
  EXPECT_EQ(hosts({7, 7, 3, 3, 5}), "2x2+1x1");
  EXPECT_NE(hosts({7, 3, 7, 3}), hosts({7, 7, 3, 3}));
  EXPECT_FALSE((TuningScope{8, "1x8", "shm", 1}).holds_in(kFour));
  EXPECT_FALSE((TuningScope{4, "2x2", "", 0}).holds_in(kFour));
  EXPECT_FALSE((TuningScope{4, "", "tcp", 0}).holds_in(kFour));
  EXPECT_FALSE((TuningScope{4, "", "", 2}).holds_in(kFour));
  EXPECT_TRUE((TuningScope{}).holds_in(kFour));
}

TEST(TuningTable, OfTwoThatHoldTheMoreSpecificCountsThenTheLater) {
  const auto chosen = [](TuningScope first, std::string first_date, TuningScope second,
                         std::string second_date) {
    const TuningTable table{
        "",
        "",
        "",
        {point(8, {{{"ring"}, 1, 0}}, std::move(first), std::move(first_date)),
         point(8, {{{"two_shot"}, 1, 0}}, std::move(second), std::move(second_date))}};
    const auto points = table.points_for(kFour);
    EXPECT_EQ(points.size(), 1U);
    return points.front().timings.front().recipe.text();
  };
  EXPECT_EQ(chosen(kFour, "2026", {}, "2027"), "ring");
  EXPECT_EQ(chosen({}, "2027", kFour, "2026"), "two_shot");
  EXPECT_EQ(chosen({4, "", "", 0}, "2027", {4, "", "shm", 0}, "2026"), "two_shot");
  EXPECT_EQ(chosen(kFour, "2026-11-21", kFour, "2026-11-22"), "two_shot");
  EXPECT_EQ(chosen(kFour, "2026-11-22", kFour, "2026-11-21"), "ring");
  EXPECT_TRUE(TuningTable({"", "", "", {point(8, {{{"ring"}, 1, 0}}, {8, "", "", 0})}})
                  .points_for(kFour)
                  .empty());
}

TEST(TuningTable, MergingKeepsTheLaterOfEachPlace) {
  TuningTable table{"",
                    "",
                    "",
                    {point(8, {{{"ring"}, 1, 0}}, kFour, "2026-11-21"),
                     point(64, {{{"ring"}, 2, 0}}, kFour, "2026-11-23")}};
  table.merge({"",
               "",
               "",
               {point(8, {{{"ring"}, 3, 0}}, kFour, "2026-11-22"),
                point(64, {{{"ring"}, 4, 0}}, kFour, "2026-11-22"),
                point(8, {{{"ring"}, 5, 0}}, {8, "1x8", "shm", 1}, "2026-11-22")}});
  ASSERT_EQ(table.points.size(), 3U);
  EXPECT_EQ(table.points[0].timings[0].us, 3);
  EXPECT_EQ(table.points[1].timings[0].us, 2);
  EXPECT_EQ(table.points[2].timings[0].us, 5);
  EXPECT_EQ(table.of_ranks(8).points.size(), 1U);
}

TEST(TuningTable, APointSpeaksForSizesNearItAndTwoForThoseBetween) {
  const std::vector<TuningPoint> points{
      point(1024, {{{"ring"}, 10, 0}, {{"two_shot"}, 20, 0}, {{"recursive_doubling"}, 15, 0}}),
      point(8192, {{{"ring"}, 120, 0}, {{"two_shot"}, 30, 0}, {{"not_in_this_library"}, 1, 0}})};
  EXPECT_EQ(order(points, 128), "");
  EXPECT_EQ(order(points, 256), "ring recursive_doubling two_shot");
  EXPECT_EQ(order(points, 1024), "ring recursive_doubling two_shot");
  EXPECT_EQ(order(points, 2048), "two_shot ring");
  EXPECT_EQ(order(points, 8192), "two_shot ring");
  EXPECT_EQ(order(points, 32768), "two_shot ring");
  EXPECT_EQ(order(points, 65536), "");
  EXPECT_EQ(measured(points, {broadcast, 4, 0}, Layout::flat(4), 10).size(), 0U);
  const auto between = measured(points, {all_reduce, 4, 0}, Layout::flat(4), 11);
  ASSERT_EQ(between.size(), 2U);
  EXPECT_NEAR(between[0].slowness, 2 * 2. / 3 + 1. / 3, 1e-12);
  EXPECT_NEAR(between[1].slowness, 2. / 3 + 4 * 1. / 3, 1e-12);
  EXPECT_NEAR(between[0].us, 20 * 2. / 3 + 30 * 1. / 3, 1e-12);
}

TEST(TuningTable, BetweenTwoSizesCutsCountThatBothKnow) {
  const std::vector<TuningPoint> points{
      point(1 << 20,
            {{{"ring"}, 10, 0}, {{"ring", {2, 65536}}, 8, 0}, {{"ring", {4, 16384}}, 5, 0}}),
      point(4 << 20,
            {{{"ring"}, 40, 0}, {{"ring", {2, 65536}}, 20, 0}, {{"ring", {1, 65536}}, 5, 0}})};
  EXPECT_EQ(order(points, 1 << 20), "ring/4x16384 ring/2x65536 ring");
  EXPECT_EQ(order(points, 2 << 20), "ring/2x65536 ring");
  EXPECT_EQ(order(points, 4 << 20), "ring/1x65536 ring/2x65536 ring");
  const auto between = measured(points, {all_reduce, 4, 0}, Layout::flat(4), 21);
  EXPECT_NEAR(between.front().us, 14, 1e-12);
}

TEST(TuningTable, ACutCountsWhereItIsFasterByMoreThanTheNoise) {
  const std::vector<TuningPoint> clear{point(1024, {{{"ring"}, 10, 0.3},
                                                    {{"ring", {2, 64}}, 9, 0.3},
                                                    {{"two_shot"}, 10.2, 0.3},
                                                    {{"chain"}, 12, 0.1}})};
  EXPECT_EQ(chosen(clear, "ring"), "ring/2x64");
  EXPECT_EQ(chosen(clear, "two_shot"), "ring/2x64");
  const std::vector<TuningPoint> doubtful{
      point(1024, {{{"ring"}, 9.2, 0.3}, {{"ring", {2, 64}}, 9, 0.3}, {{"two_shot"}, 10.2, 0.3}})};
  EXPECT_EQ(chosen(doubtful, "ring"), "ring");
  EXPECT_EQ(chosen(doubtful, "two_shot"), "ring");  // not another's cut by chance
}

TEST(TuningTable, TheModelsChoiceStaysUnlessAnotherIsFasterByMoreThanTheNoise) {
  const std::vector<TuningPoint> points{point(1024, {{{"ring"}, 10, 0.3},
                                                     {{"two_shot"}, 10.45, 0.4},
                                                     {{"recursive_doubling"}, 10.55, 0.4},
                                                     {{"chain"}, 12, 9}})};
  EXPECT_EQ(chosen(points, "ring"), "ring");
  EXPECT_EQ(chosen(points, "two_shot"), "two_shot");
  EXPECT_EQ(chosen(points, "recursive_doubling"), "ring");
  EXPECT_EQ(chosen(points, "chain"), "ring");
  EXPECT_EQ(chosen(points, "double_binary_tree"), "ring");  // was not measured
  EXPECT_EQ(chosen({}, "ring"), "");
}

TEST(TuningTable, PlansGoByItAndSaySo) {
  World world;
  world.layout = Layout::flat(4);
  const CollectiveSpec spec{all_reduce, 4, 0};
  const std::uint32_t size = size_class(1024);
  const Plan model = *make_plan(world, {spec, size});
  EXPECT_EQ(model.measured_us, 0);
  const std::string other = model.algorithm->name == "ring" ? "two_shot" : "ring";
  world.tuning = {
      point(1024, {{{other}, 2.5, 0.1}, {{std::string(model.algorithm->name)}, 9, 0.1}})};
  world.tuning_file = "the.json";
  const Plan tuned = *make_plan(world, {spec, size});
  EXPECT_EQ(tuned.algorithm->name, other);
  EXPECT_EQ(tuned.measured_us, 2.5);
  EXPECT_NE(tuned.digest(), model.digest());
  const std::string text = explain(world, tuned, size);
  EXPECT_NE(text.find("measured (the.json): " + other + " 2.50 us;"), std::string::npos) << text;
  EXPECT_NE(text.find("chosen by: the tuning table, over the model's " +
                      std::string(model.algorithm->name)),
            std::string::npos)
      << text;

  world.tuning[0].timings[1].us = 2.55;
  const Plan same = *make_plan(world, {spec, size});
  EXPECT_EQ(same.algorithm, model.algorithm);
  EXPECT_EQ(same.measured_us, 2.55);
  EXPECT_NE(explain(world, same, size).find("chosen by: the model"), std::string::npos);

  world.tuning[0].timings[1].us = 9;
  world.algorithm = model.algorithm->name;
  const Plan forced = *make_plan(world, {spec, size});
  EXPECT_EQ(forced.algorithm, model.algorithm);
  EXPECT_TRUE(forced.forced);
  EXPECT_EQ(explain(world, forced, size).find("chosen by"), std::string::npos);
  EXPECT_EQ(explain(world, *make_plan(world, {spec, 30}), 30).find("measured"), std::string::npos);
}

TEST(TuningTable, PlansAreCutByItBehindKnobs) {
  World world;
  world.layout = Layout::flat(4);
  world.tuning_file = "the.json";
  const CollectiveSpec spec{all_reduce, 4, 0};
  const std::uint32_t size = size_class(1 << 20);
  const Plan model = *make_plan(world, {spec, size});
  const std::string name(model.algorithm->name), other = name == "ring" ? "two_shot" : "ring";
  const auto cut = [&] {
    const Plan plan = *make_plan(world, {spec, size});
    return Recipe{std::string(plan.algorithm->name), {plan.lanes, plan.slice_bytes}}.text();
  };
  world.tuning = {point(1 << 20, {{{name}, 9, 0.1}, {{other, {4, 32768}}, 2.5, 0.1}})};
  EXPECT_EQ(cut(), other + "/4x32768");
  const Plan tuned = *make_plan(world, {spec, size});
  EXPECT_EQ(tuned.measured_us, 2.5);
  EXPECT_GT(tuned.predicted_us, 0);
  const std::string text = explain(world, tuned, size);
  EXPECT_NE(text.find("measured (the.json): " + other + "/4x32768 2.50 us; " + name +
                      " 9.00 us\n"
                      "chosen by: the tuning table, over the model's " +
                      name),
            std::string::npos)
      << text;

  world.cut.lanes = 1;
  EXPECT_EQ(cut(), other + "/1x32768");
  world.cut.slice_bytes = 4096;
  EXPECT_EQ(cut(), other + "/1x4096");
  world.algorithm = "ring/2x8K";
  EXPECT_EQ(cut(), "ring/2x8192");
  world.cut = {};
  world.algorithm = other;  // cut as the planner does
  const Plan forced = *make_plan(world, {spec, size});
  EXPECT_EQ(forced.demanded, Cut{});

  // The model's algorithm in another cut than the model's.
  world.algorithm.clear();
  world.tuning = {point(1 << 20, {{{name}, 9, 0.1}, {{name, {4, 32768}}, 2.5, 0.1}})};
  EXPECT_EQ(cut(), name + "/4x32768");
  EXPECT_NE(explain(world, *make_plan(world, {spec, size}), size)
                .find("the tuning table, over the model's own cut of " + name),
            std::string::npos);
  world.tuning[0].timings[1].us = 8.95;
  EXPECT_EQ(make_plan(world, {spec, size})->digest(), model.digest());
}

}  // namespace
}  // namespace coll
