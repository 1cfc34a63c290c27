// SPDX-License-Identifier: Apache-2.0
// All ranks plan and predict by rank 0's tuning table.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "communicator/membership/membership.hpp"
#include "rendezvous/meeting_ranks.hpp"

namespace coll::testing {
namespace {

Result<Membership> agree(Meeting& meeting, const SharedSettings& settings = {}) {
  auto choices = transport_choices("tcp");
  return agree_on_membership(assembly_of(meeting, in(seconds(100))), *choices, "", settings);
}

/// A table that knows one recipe for broadcasts of 1 KiB among `ranks` ranks.
FoundTuning table_of(Rank ranks, const std::string& recipe) {
  FoundTuning tuning;
  tuning.file = recipe + ".json";
  tuning.table.points = {
      {Collective::broadcast, 1024, {ranks, "", "", 0}, "2026", {{*read_recipe(recipe), 1, 0}}}};
  return tuning;
}

/// What each rank plans for a broadcast of 1 KiB, if they have these tables; `warning`
/// gets what was said on standard error, and `expected_us` how long they expect it to take.
std::vector<std::string> planned(const std::vector<FoundTuning>& tables,
                                 std::string* warning = nullptr,
                                 std::vector<double>* expected_us = nullptr) {
  std::vector<Meeting> meetings = star(static_cast<Rank>(tables.size()));
  std::vector<std::string> names(tables.size());
  if (expected_us != nullptr) expected_us->resize(tables.size());
  ::testing::internal::CaptureStderr();
  std::vector<std::thread> ranks;
  for (std::size_t r = 0; r < tables.size(); ++r) {
    ranks.emplace_back([&, r] {
      SharedSettings settings;
      settings.tuning = tables[r];
      const Result<Membership> member = agree(meetings[r], settings);
      ASSERT_TRUE(member.ok()) << member.status().text();
      const CollectiveSpec spec{Collective::broadcast, static_cast<Rank>(tables.size()), 0};
      const Result<Plan> plan = make_plan(member->world, {spec, size_class(1024)});
      ASSERT_TRUE(plan.ok()) << plan.status().text();
      if (expected_us != nullptr) (*expected_us)[r] = expect(member->world, *plan, 1024).us;
      names[r] = Recipe{std::string(plan->algorithm->name), plan->demanded}.text();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (warning != nullptr) *warning = said;
  return names;
}

TEST(SharedTuning, AllRanksPlanByTheTuningTableOfRankZero) {
  using Names = std::vector<std::string>;
  const FoundTuning none, chain = table_of(3, "chain"), linear = table_of(3, "linear");
  const FoundTuning cut = table_of(3, "chain/2x512");
  const std::string untuned = planned({none, none, none})[0];
  std::string warning;
  EXPECT_EQ(planned({chain, chain, chain}, &warning), Names(3, "chain"));
  EXPECT_EQ(warning, "");
  EXPECT_EQ(planned({linear, linear, linear}), Names(3, "linear"));
  EXPECT_EQ(planned({cut, chain, none}), Names(3, "chain/2x512"));
  EXPECT_EQ(planned({chain, linear, none}, &warning), Names(3, "chain"));
  EXPECT_NE(warning.find("ranks 1, 2 have another tuning table than rank 0 (rank 1: linear.json; "
                         "rank 0: chain.json)"),
            std::string::npos)
      << warning;
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << warning;
  EXPECT_EQ(planned({none, none, chain}, &warning), Names(3, untuned));
  EXPECT_NE(warning.find("rank 2 has another tuning table than rank 0 (rank 2: chain.json; "
                         "rank 0: none)"),
            std::string::npos)
      << warning;
  // Tables that say nothing of this number of ranks are no difference.
  EXPECT_EQ(planned({table_of(4, "chain"), none, table_of(5, "linear")}, &warning),
            Names(3, untuned));
  EXPECT_EQ(warning, "");
}

/// A fitted model travels with the table, from rank 0 to all. Models that differ are warned of.
TEST(SharedTuning, AllRanksPredictByTheModelOfRankZero) {
  FoundTuning fitted = table_of(3, "chain"), other = fitted;
  fitted.table.points.clear();  // a model says something of any number of ranks
  fitted.table.model = other.table.model = *default_cost_model();
  fitted.table.model->name = "fitted";
  fitted.table.model->constants.kernel.alpha_us *= 100;
  std::string warning;
  std::vector<double> us;
  planned({fitted, other, {}}, &warning, &us);
  EXPECT_NE(warning.find("ranks 1, 2 have another tuning table"), std::string::npos) << warning;
  std::vector<double> usual;
  planned({{}, {}, {}}, nullptr, &usual);
  for (const double each : us) EXPECT_EQ(each, us[0]);
  for (const double each : usual) EXPECT_EQ(each, usual[0]);
  EXPECT_GT(us[0], 5 * usual[0]);
}

TEST(SharedTuning, ATuningTableTooLargeToSendIsLeftOutWithAWarning) {
  FoundTuning large = table_of(2, "chain");
  large.table.points[0].timings.resize(12'000, {{std::string(40, 'x')}, 1, 0});
  for (std::size_t i = 0; i < large.table.points[0].timings.size(); ++i)
    large.table.points[0].timings[i].recipe.algorithm += std::to_string(i);
  std::string warning;
  EXPECT_EQ(planned({large, large}, &warning), planned({{}, {}}));
  EXPECT_NE(warning.find("chain.json"), std::string::npos) << warning;
}

}  // namespace
}  // namespace coll::testing
