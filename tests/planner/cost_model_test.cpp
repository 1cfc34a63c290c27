// SPDX-License-Identifier: Apache-2.0
// The cost model as a value and as a file.
#include "planner/costs/cost_model.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "test_seed.hpp"
#include "worlds.hpp"

namespace coll {
namespace {

using Json = nlohmann::ordered_json;

Json usual_json() {
  return Json::parse(cost_model_json(*default_cost_model()));
}

/// What a reader says of this text; empty if it takes it.
std::string complaint(const std::string& text) {
  const Result<CostModel> read = read_cost_model_json(text, "costs.json");
  if (read.ok()) return {};
  EXPECT_EQ(read.status().code(), Code::invalid_argument);
  return read.status().text();
}

template <class Change>
std::string complaint_after(Change change) {
  Json json = usual_json();
  change(json);
  return complaint(json.dump());
}

TEST(CostModel, DefaultIsOneThatFilesMayHave) {
  const CostModel& usual = *default_cost_model();
  const Result<CostModel> read = read_cost_model_json(cost_model_json(usual), "usual");
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(*read, usual);
  EXPECT_FALSE(usual.name.empty() || usual.machine.empty() || usual.date.empty());
  for (const std::string& source : usual.measured) EXPECT_FALSE(source.empty());
}

TEST(CostModel, ComesBackFromAFileBitForBit) {
  std::mt19937_64 random(test::test_seed());
  for (int round = 0; round < 200; ++round) {
    CostModel model{.name = "a \"model\"",
                    .machine = "\xc3\xa4\n",
                    .date = "",
                    .constants = {},
                    .measured = {}};
    for (const CostGroup& group : cost_groups()) {
      for (const CostConstant& constant : group.constants) {
        std::uniform_real_distribution<double> value(constant.least, constant.most);
        constant.of(model.constants) = value(random);
      }
    }
    model.measured[static_cast<std::size_t>(round) % kCostGroups] = "here";
    const Result<CostModel> read = read_cost_model_json(cost_model_json(model), "random");
    ASSERT_TRUE(read.ok()) << read.status().text();
    ASSERT_EQ(*read, model);
  }
}

/// Each row of the table is about a member of its own: to change one changes the model by that row.
TEST(CostModel, TellsAllItsConstantsApart) {
  for (const CostGroup& group : cost_groups()) {
    for (const CostConstant& constant : group.constants) {
      Json json = usual_json();
      json[std::string(group.name)][std::string(constant.name)] = constant.most;
      const Result<CostModel> read = read_cost_model_json(json.dump(), "changed");
      ASSERT_TRUE(read.ok()) << read.status().text();
      CostModel expected = *default_cost_model();
      EXPECT_NE(constant.of(expected.constants), constant.most)
          << group.name << '.' << constant.name;
      constant.of(expected.constants) = constant.most;
      EXPECT_EQ(*read, expected) << group.name << '.' << constant.name;
      EXPECT_NE(*read, *default_cost_model());
    }
  }
}

TEST(CostModel, RefusesEveryConstantThatIsMissingOrOutOfRange) {
  for (const CostGroup& group : cost_groups()) {
    const std::string in(group.name);
    for (const CostConstant& constant : group.constants) {
      const std::string key(constant.name), path = in + "." + key;
      const std::string missing = complaint_after([&](Json& json) { json[in].erase(key); });
      EXPECT_TRUE(contains(missing, "costs.json has no " + path)) << missing;
      for (const Json& bad :
           {Json(constant.least - 1), Json(2 * constant.most), Json("fast"), Json(), Json(true)}) {
        const std::string text = complaint_after([&](Json& json) { json[in][key] = bad; });
        EXPECT_TRUE(contains(text, "costs.json has " + path + " " + bad.dump())) << text;
        EXPECT_TRUE(contains(text, "give a number from")) << text;
      }
    }
  }
}

TEST(CostModel, SaysWhereAFileIsWrongAndWhatToDo) {
  EXPECT_EQ(complaint_after([](Json&) {}), "");
  for (const char* text : {"", "{", "[]", "7", "{\"memory\": {\"alpha_us\": 1e999}}"})
    EXPECT_TRUE(contains(complaint(text), "costs.json is no JSON object")) << text;
  EXPECT_TRUE(contains(complaint("{}"), "has no cost_model_version"));
  EXPECT_TRUE(
      contains(complaint_after([](Json& json) { json["cost_model_version"] = 2; }), "set it to 1"));
  EXPECT_TRUE(contains(complaint_after([](Json& json) { json.erase("machine"); }),
                       "costs.json has no machine"));
  EXPECT_TRUE(contains(complaint_after([](Json& json) { json["date"] = 2026; }),
                       "costs.json has date 2026"));
  EXPECT_TRUE(contains(complaint_after([](Json& json) { json.erase("gpu"); }),
                       "costs.json has no object gpu"));
  EXPECT_TRUE(contains(complaint_after([](Json& json) { json["gpu"] = 1; }),
                       "costs.json has no object gpu"));
  EXPECT_TRUE(contains(complaint_after([](Json& json) { json["gpu"].erase("measured"); }),
                       "costs.json has no gpu.measured"));
  EXPECT_TRUE(contains(complaint_after([](Json& json) { json["memory"]["alpha_ms"] = 1; }),
                       "the unknown key memory.alpha_ms"));
  EXPECT_TRUE(
      contains(complaint_after([](Json& json) { json["sugar"] = 1; }), "the unknown key sugar"));
  const std::string slow =
      complaint_after([](Json& json) { json["memory"]["send_us_per_byte"] = -1; });
  EXPECT_TRUE(contains(slow, "memory.send_us_per_byte -1")) << slow;
  EXPECT_TRUE(contains(slow, "give a number from 0.0 to 1.0 us/byte")) << slow;
}

/// Planning ends, and what it finds is a number, whatever a file may hold.
TEST(CostModel, PlansWithTheLeastAndTheMostOfEverything) {
  for (const bool most : {false, true}) {
    CostModel model;
    for (const CostGroup& group : cost_groups()) {
      for (const CostConstant& constant : group.constants)
        constant.of(model.constants) = most ? constant.most : constant.least;
    }
    for (const double crowd : {1.0, 4.0}) {
      World world = world_of(4);
      world.model = std::make_shared<const CostModel>(model);
      world.view.ranks_per_core = crowd;
      for (const Collective collective : {Collective::all_reduce, Collective::all_gather}) {
        for (const std::uint64_t bytes : {8ULL, 1ULL << 20}) {
          const Plan plan = plan_of(world, collective, bytes);
          EXPECT_TRUE(plan.predicted_us >= 0 && plan.predicted_us < 1e300) << plan.predicted_us;
          EXPECT_GT(plan.slice_bytes, 0U);
        }
      }
    }
  }
}

}  // namespace
}  // namespace coll
