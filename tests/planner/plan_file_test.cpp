// SPDX-License-Identifier: Apache-2.0
// Plans that processes leave to later ones.
#include "planner/plan_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <functional>

#include "base/hash.hpp"
#include "planner/plan_memory.hpp"
#include "planner/prediction.hpp"
#include "sys/build_id.hpp"
#include "sys/folder.hpp"
#include "sys/text_file.hpp"
#include "temporary_folder.hpp"
#include "worlds.hpp"

namespace coll {
namespace {

using enum Collective;

constexpr std::string_view kBuild = "0123abcd";

/// All that plans are kept for: each operation that is simulated, with roots, orders and blocks.
std::vector<PlanKey> keys_of(const World& world) {
  const Rank ranks = world.layout.ranks();
  std::vector<PlanKey> keys;
  for (const Collective collective : {all_reduce, reduce, broadcast, all_gather, reduce_scatter,
                                      all_to_all, gather, scatter, barrier}) {
    for (const std::uint32_t size : {0U, 3U, 12U, 20U, 26U}) {
      keys.push_back({{collective, ranks, has_root(collective) ? ranks - 1 : 0}, size});
    }
  }
  keys.push_back({{all_reduce, ranks, 0, false, SumOrder::tree}, 14});
  keys.push_back({{reduce, ranks, 0, false, SumOrder::sided_tree}, 14});
  keys.push_back({{all_gather, ranks, 0, true}, 14});
  return keys;
}

Plan afresh(const World& world, const PlanKey& key) {
  const Result<Plan> plan = plan_afresh(world, key);
  EXPECT_TRUE(plan.ok()) << plan.status().text();
  return *plan;
}

/// In all members, and of the numbers in all bits.
void expect_same(const Plan& a, const Plan& b, const std::string& what) {
  EXPECT_EQ(a.algorithm, b.algorithm) << what;
  EXPECT_EQ(a.spec, b.spec) << what;
  EXPECT_EQ(a.cost.steps, b.cost.steps) << what;
  EXPECT_EQ(a.cost.sent, b.cost.sent) << what;
  EXPECT_TRUE(cut_alike(a, b)) << what;
  EXPECT_EQ(a.message_chunks, b.message_chunks) << what;
  EXPECT_EQ(a.demanded, b.demanded) << what;
  EXPECT_EQ(a.predicted_us, b.predicted_us) << what;
  EXPECT_EQ(a.predicted_each_us, b.predicted_each_us) << what;
  EXPECT_EQ(a.measured_us, b.measured_us) << what;
  EXPECT_EQ(a.forced, b.forced) << what;
  EXPECT_EQ(a.digest(), b.digest()) << what;
}

std::string line_of(const World& world, const PlanKey& key, const Plan& plan,
                    std::string_view build = kBuild) {
  const auto mark = plan_mark(world, key.spec, build);
  EXPECT_TRUE(mark);
  return plan_line(mark.value_or(0), key, plan);
}
std::string line_for(const World& world, const PlanKey& key) {
  return line_of(world, key, afresh(world, key));
}

std::string text_for(const World& world, const std::vector<PlanKey>& keys) {
  std::vector<std::string> lines;
  for (const PlanKey& key : keys) lines.push_back(line_for(world, key));
  return add_plans("", lines);
}

TEST(PlanFile, GivesBackEveryPlanAsItWasMade) {
  World crowded = world_of(8);
  crowded.view.ranks_per_core = 4;
  crowded.view.cores = {2};
  World hosts = world_of(6);
  hosts.layout = make_layout(std::vector<Place>{
      {.host = 0}, {.host = 0}, {.host = 0}, {.host = 1}, {.host = 1}, {.host = 1}});
  hosts.shared_memory = false;
  hosts.view.path = &CostConstants::network;
  for (const World& world : {world_of(2), world_of(5), crowded, hosts}) {
    const std::vector<PlanKey> keys = keys_of(world);
    const std::string text = text_for(world, keys);
    const std::map<PlanKey, Plan> read = read_plans(text, kBuild, world);
    for (const PlanKey& key : keys) {
      const std::string line = line_for(world, key);
      ASSERT_TRUE(read.contains(key)) << line;
      expect_same(read.at(key), afresh(world, key), line);
    }
    EXPECT_EQ(add_plans(text, {}), text);
  }
}

TEST(PlanFile, HasThePlansOfEachBuildApart) {
  const World world = world_of(4);
  const PlanKey key{{all_reduce, 4, 0}, 10};
  Plan other = afresh(world, key);
  other.lanes = 3;
  const std::string text =
      add_plans("", {line_for(world, key), line_of(world, key, other, "0123abce")});
  EXPECT_EQ(read_plans(text, kBuild, world).at(key).lanes, afresh(world, key).lanes);
  EXPECT_EQ(read_plans(text, "0123abce", world).at(key).lanes, 3U);
  EXPECT_TRUE(read_plans(text, "0123abcf", world).empty());
}

TEST(PlanFile, GivesWayToAnotherFormatAndToNothingElse) {
  const World world = world_of(4);
  const std::string text = text_for(world, {{{all_reduce, 4, 0}, 10}});
  ASSERT_TRUE(text.starts_with("collectives plans 1\n"));
  for (const char* digit : {"0", "2", "11"}) {
    std::string later = text;
    later.replace(text.find('1'), 1, digit);
    EXPECT_TRUE(may_hold_plans(later));
    EXPECT_TRUE(read_plans(later, kBuild, world).empty()) << digit;
    EXPECT_EQ(add_plans(later, {"a"}), "collectives plans 1\na\n");
  }
  EXPECT_TRUE(may_hold_plans(""));
  EXPECT_TRUE(read_plans("", kBuild, world).empty());
  EXPECT_FALSE(may_hold_plans("thesis"));
  EXPECT_FALSE(may_hold_plans(text.substr(1)));
}

/// What was measured decides whether two ranks fetch the results of an all_reduce.
TEST(PlanFile, HasNoSumsOfTwoRanksWhereAnotherCostIsMeasured) {
  for (const Rank ranks : {2, 3}) {
    World world = world_of(ranks);
    world.view.cores = {static_cast<std::uint32_t>(ranks)};
    const std::string text = text_for(world, {{{all_reduce, ranks, 0}, 22}});
    EXPECT_EQ(read_plans(text, kBuild, world).size(), 1U);
    world.view.factors.fetch = 3;
    EXPECT_EQ(read_plans(text, kBuild, world).size(), ranks == 2 ? 0U : 1U);
  }
}

TEST(PlanFile, HasNothingForAWorldThatDiffers) {
  World world = world_of(6);
  world.view.cores = {6};
  const PlanKey copies{{all_gather, 6, 0}, 12}, sums{{all_reduce, 6, 0}, 12};
  const std::string text = text_for(world, {copies, sums});
  const auto found = [&](const std::function<void(World&)>& change) {
    World other = world;
    change(other);
    std::string both;
    for (const auto& [key, plan] : read_plans(text, kBuild, other))
      both += key == copies ? "copies " : "sums ";
    return both;
  };
  EXPECT_EQ(found([](World&) {}), "sums copies ");
  EXPECT_EQ(found([](World& of) { of.view.measured.line_us = 1; }), "sums copies ");
  EXPECT_EQ(found([](World& of) { of.order = SumOrder::tree; }), "sums copies ") << "keys say it";
  EXPECT_EQ(found([](World& of) { of.view.factors.copy = 1; }), "sums ");
  EXPECT_EQ(found([](World& of) { of.view.factors.fetch = 1; }), "sums ");
  const std::vector<std::function<void(World&)>> changes{
      [](World& of) {
        of.layout = make_layout(std::vector<Place>{{.host = 0}, {.host = 1}, {}, {}, {}, {}});
      },
      [](World& of) { of.layout.numa[5] = 1; },
      [](World& of) { of.layout.island[5] = 1; },
      [](World& of) { of.layout.rail[5] = 1; },
      [](World& of) { std::swap(of.layout.members[0][0], of.layout.members[0][1]); },
      [](World& of) { std::swap(of.layout.rings[0][0], of.layout.rings[0][1]); },
      [](World& of) { std::swap(of.layout.line[0], of.layout.line[1]); },
      [](World& of) { of.view.path = &CostConstants::kernel; },
      [](World& of) { of.view.between = &CostConstants::kernel; },
      [](World& of) { of.view.ranks_per_core = 1.5; },
      [](World& of) { of.view.cores = {3}; },
      [](World& of) {
        of.view.cores = {6, 6};
      },
      [](World& of) { of.slot_bytes /= 2; },
      [](World& of) { of.passing_bytes /= 2; },
      [](World& of) { of.credits /= 2; },
      [](World& of) { of.max_lanes /= 2; },
      [](World& of) { of.shared_memory = false; },
      [](World& of) {
        CostModel model = *of.model;
        model.constants.gpu.slice_bytes += 1;
        of.model = std::make_shared<const CostModel>(model);
      },
      // What follows decides by itself, so that plans are not kept at all.
      [](World& of) { of.network = std::make_shared<const Network>(); },
      [](World& of) {
        of.tuning = {{all_gather, 8, {}, "", {}}};
      },
      [](World& of) { of.algorithm = "ring"; },
      [](World& of) { of.cut.lanes = 1; },
      [](World& of) { of.cut.slice_bytes = 64; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) EXPECT_EQ(found(changes[i]), "") << i;
  EXPECT_EQ(found([](World& of) { of.model = std::make_shared<const CostModel>(*of.model); }),
            "sums copies ");
}

TEST(PlanFile, HasWhatIsSimulated) {
  const auto kept = [](const World& world, const CollectiveSpec& spec) {
    return plan_mark(world, spec, kBuild).has_value();
  };
  EXPECT_TRUE(kept(world_of(kMostSimulatedRanks), {all_reduce, kMostSimulatedRanks}));
  EXPECT_FALSE(kept(world_of(kMostSimulatedRanks + 1), {all_reduce, kMostSimulatedRanks + 1}));
  EXPECT_FALSE(kept(world_of(4), {send, 4, 1}));
  EXPECT_FALSE(kept(world_of(4), {recv, 4, 1}));
  EXPECT_FALSE(kept(world_of(4), {broadcast, 1}));
  EXPECT_FALSE(kept(world_of(1), {all_reduce, 1}));
}

/// The line's words, without its hash.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  while (!line.empty()) words.emplace_back(take_word(line));
  words.pop_back();
  return words;
}
std::string hashed(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  char hash[32];
  std::snprintf(hash, sizeof hash, " %" PRIx64, Fnv1a().text(line).value());
  return line + hash;
}

TEST(PlanFile, SkipsLinesThatMakeNoSense) {
  const World world = world_of(4);
  const PlanKey good{{broadcast, 4, 2}, 20};
  const std::string line = line_for(world, {{all_reduce, 4, 0}, 20});
  const std::vector<std::string> words = words_of(line);
  ASSERT_EQ(hashed(words), line);
  ASSERT_EQ(words.size(), 12U) << line;
  std::vector<std::string> bad{"x", words[0], hashed({words[0]})};
  const auto add = [&](std::size_t at, const std::string& word) {
    std::vector<std::string> changed = words;
    if (at == changed.size()) changed.emplace_back();
    changed[at] = word;
    bad.push_back(hashed(changed));
  };
  for (std::size_t at = 0; at <= words.size(); ++at) {
    for (const char* word : {"x", "-1", "nan"}) add(at, word);
    if (at < 10) add(at, "99999999999");  // but a time may be as long
  }
  add(1, "send");
  add(2, "4");              // root
  add(5, "64");             // size class
  add(6, "binomial_tree");  // no such algorithm
  add(6, "pairwise");       // not for sums
  add(7, "0");              // lanes
  add(7, std::to_string(world.max_lanes + 1));
  add(8, "63");  // less than a slice
  add(8, std::to_string(world.slot_bytes + 1));
  add(9, "4");  // loans
  bad.push_back(line_for(world, good));
  const auto read = read_plans(add_plans("", bad), kBuild, world);
  ASSERT_EQ(read.size(), 1U) << read.begin()->second.algorithm->name;
  EXPECT_TRUE(read.contains(good));
}

TEST(PlanFile, SkipsLinesThatAreDamaged) {
  const World world = world_of(4);
  const std::string line = line_for(world, {{all_reduce, 4, 0}, 20});
  EXPECT_EQ(read_plans(add_plans("", {line}), kBuild, world).size(), 1U);
  for (std::size_t at = 0; at < line.size(); ++at) {
    std::string damaged = line;
    damaged[at] = damaged[at] == '1' ? '2' : '1';
    EXPECT_TRUE(read_plans(add_plans("", {damaged}), kBuild, world).empty()) << damaged;
    EXPECT_TRUE(read_plans(add_plans("", {line.substr(0, at)}), kBuild, world).empty()) << at;
    EXPECT_TRUE(read_plans(add_plans("", {line.substr(at + 1)}), kBuild, world).empty()) << at;
  }
}

TEST(PlanFile, HasEachLineOnceAndTheLatestOfTooMany) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < kMostKeptPlans; ++i) lines.push_back(std::to_string(i));
  std::string text = add_plans("", lines);
  EXPECT_EQ(add_plans(text, {"7", "7"}), text);
  text = add_plans(text, {"new"});
  EXPECT_EQ(std::ranges::count(text, '\n'), 1 + static_cast<std::ptrdiff_t>(kMostKeptPlans));
  EXPECT_FALSE(contains(text, "\n0\n"));
  EXPECT_TRUE(contains(text, "\n1\n"));
  EXPECT_TRUE(text.ends_with("\nnew\n"));
}

TEST(PlanFile, TheLaterOfTwoLinesForTheSameCallsCounts) {
  const World world = world_of(4);
  const PlanKey key{{all_reduce, 4, 0}, 20};
  std::vector<std::string> lines;
  for (const std::uint32_t lanes : {1U, 3U, 2U}) {
    Plan plan = afresh(world, key);
    plan.lanes = lanes;
    lines.push_back(line_of(world, key, plan));
  }
  EXPECT_EQ(read_plans(add_plans("", lines), kBuild, world).at(key).lanes, 2U);
}

class PlanMemory : public testing::Test {
 protected:
  [[nodiscard]] std::string text() const {
    const Result<std::string> read = read_file(file_.path);
    return read.ok() ? *read : "";
  }
  /// A plan that no planner makes, left by an earlier process.
  Plan leave_odd_plan(const World& world, const PlanKey& key) const {
    Plan odd = afresh(world, key);
    odd.slice_bytes = 640;
    odd.lanes = 3;
    const std::string lines = add_plans(text(), {line_of(world, key, odd, file_.build)});
    EXPECT_TRUE(make_folder(folder_.path() + "/cache").ok());
    EXPECT_TRUE(replace_file(file_.path, lines).ok());
    return odd;
  }
  const test::TemporaryFolder folder_;
  const PlanFile file_{folder_.path() + "/cache/plans", "build"};
};

TEST_F(PlanMemory, LeavesWhatThisProcessMadeAndOnlyOnce) {
  ASSERT_TRUE(leave_plans(file_).ok());  // what other tests have made
  World world = world_of(7);
  world.credits = 5;
  leave_odd_plan(world_of(3), {{barrier, 3, 0}, 0});
  const std::string before = text();
  ASSERT_TRUE(leave_plans(file_).ok());
  EXPECT_EQ(text(), before) << "nothing was made";
  const PlanKey key{{all_gather, 7, 0}, 15}, formula{{send, 7, 1}, 15};
  ASSERT_TRUE(make_plan(world, key).ok());
  ASSERT_TRUE(make_plan(world, formula).ok());
  ASSERT_TRUE(leave_plans(file_).ok());
  EXPECT_EQ(text(), before + line_of(world, key, afresh(world, key), file_.build) + "\n");
  ASSERT_TRUE(replace_file(file_.path, before).ok());
  ASSERT_TRUE(leave_plans(file_).ok());
  EXPECT_EQ(text(), before) << "it has been left";
}

TEST_F(PlanMemory, RecallsWhatAnEarlierProcessLeft) {
  World world = world_of(7);
  world.credits = 6;
  const PlanKey key{{all_gather, 7, 0}, 15}, other{{all_gather, 7, 0}, 16};
  const Plan odd = leave_odd_plan(world, key);
  const std::string before = text();
  recall_plans(world, {"", file_.build});
  EXPECT_FALSE(remembered_plan(world, key));
  recall_plans(world, file_);
  expect_same(*make_plan(world, key), odd, "recalled");
  ASSERT_TRUE(leave_plans(file_).ok());
  EXPECT_EQ(text(), before) << "what was recalled was not made";
  expect_same(*make_plan(world, other), afresh(world, other), "made");
}

TEST_F(PlanMemory, LooksOnceForEachWorld) {
  for (const bool there : {false, true}) {
    World world = world_of(7);
    world.credits = there ? 7 : 8;
    const PlanKey key{{all_gather, 7, 0}, 15}, other{{all_gather, 7, 0}, 16};
    if (there) leave_odd_plan(world, other);
    recall_plans(world, file_);
    leave_odd_plan(world, key);
    recall_plans(world, file_);
    EXPECT_FALSE(remembered_plan(world, key));
    EXPECT_EQ(remembered_plan(world, other).has_value(), there);
  }
}

TEST_F(PlanMemory, AFileOfSomethingElseIsLeftAlone) {
  const std::string path = folder_.path() + "/thesis", pipe = folder_.path() + "/pipe";
  ASSERT_TRUE(replace_file(path, "text").ok());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  World world = world_of(7);
  world.credits = 9;
  for (const std::string& place : {path, path + "/plans", pipe, folder_.path()}) {
    ++world.credits;
    recall_plans(world, {place, "build"});
    ASSERT_TRUE(make_plan(world, {{all_gather, 7, 0}, 15}).ok());
    const Status left = leave_plans({place, "build"});
    ASSERT_FALSE(left.ok()) << place;
    EXPECT_TRUE(contains(left.text(), place)) << left.text();
  }
  EXPECT_EQ(*read_file(path), "text");
  EXPECT_EQ(entries_of(folder_.path()).size(), 2U);
}

TEST_F(PlanMemory, TheKnobNamesTheFile) {
  EXPECT_EQ(plan_file_of("none").path, "");
  EXPECT_EQ(plan_file_of("/there/plans").path, "/there/plans");
  const std::string folder = cache_folder();
  EXPECT_EQ(plan_file_of("auto").path, folder.empty() ? "" : folder + "/plans");
  EXPECT_EQ(plan_file_of("auto").build, build_id());
}

}  // namespace
}  // namespace coll
