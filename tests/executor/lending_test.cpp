// SPDX-License-Identifier: Apache-2.0
// A message is lent only where nothing overwrites it, and lands only where nothing needs the place
// before; where it matters both happen.
#include "executor/lending.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <tuple>

#include "collectives/built.hpp"
#include "executor_ranks.hpp"
#include "user_memory.hpp"

namespace coll {
namespace {

using When = BoundStep::When;

/// Does the memory of the message still hold it when all lanes are through, in whatever order they
/// went?
bool stays(const Schedule& schedule, const Memory& memory, std::size_t lane, std::size_t index,
           const Operand& lent) {
  const Extent message = extent_of(memory, lent, schedule.lanes[lane][index].count);
  for (std::size_t l = 0; l < schedule.lanes.size(); ++l) {
    for (std::size_t i = 0; i < schedule.lanes[l].size(); ++i) {
      if (l == lane && i < index) continue;
      const Step step = schedule.lanes[l][i];
      const Extent written = extent_of(memory, step.into, step.count);
      if (!written.meets(message)) continue;
      const bool itself = l == lane && i == index && written == message;
      if (!itself) return false;
    }
  }
  return true;
}

/// A message without a reduction is read where its step takes it, others where the step leaves
/// them.
When by_brute_force(const Schedule& schedule, std::size_t lane, std::size_t index) {
  const Step step = schedule.lanes[lane][index];
  const Operand lent = step.from.present() && !step.with.present() ? step.from : step.into;
  const bool users = lent.space == Space::input || lent.space == Space::output;
  if (!step.sends() || step.count == 0 || !users) return When::never;
  if (!stays(schedule, Memory::apart(schedule), lane, index, lent)) return When::never;
  const CollectiveSpec& spec = schedule.spec;
  const InPlace place = in_place(spec.collective, spec.ranks, spec.root, schedule.rank);
  const bool in_one_too =
      !place.allowed || stays(schedule, Memory::in_one(schedule, place), lane, index, lent);
  return in_one_too ? When::always : When::if_apart;
}

TEST(Lending, IsOfMemoryThatNothingOverwrites) {
  for_each_call([](const std::vector<Schedule>& schedules) {
    for (const Schedule& schedule : schedules) {
      const auto loans = find_loans(schedule);
      ASSERT_EQ(loans.size(), schedule.lanes.size());
      for (std::size_t lane = 0; lane < loans.size(); ++lane) {
        ASSERT_EQ(loans[lane].size(), schedule.lanes[lane].size());
        for (std::size_t index = 0; index < loans[lane].size(); ++index) {
          EXPECT_EQ(loans[lane][index].lend, by_brute_force(schedule, lane, index))
              << "rank " << schedule.rank << " lane " << lane << " step " << index;
        }
      }
    }
  });
}

/// May the message be written to its place before any lane has begun, whatever their order?
bool is_free(const Schedule& schedule, const Memory& memory, std::size_t lane, std::size_t index) {
  const Step own = schedule.lanes[lane][index];
  const Extent message = extent_of(memory, own.into, own.count);
  for (std::size_t l = 0; l < schedule.lanes.size(); ++l) {
    const std::size_t end = l == lane ? index : schedule.lanes[l].size();
    for (std::size_t i = 0; i < schedule.lanes[l].size(); ++i) {
      if (l == lane && i >= end) break;
      const Step step = schedule.lanes[l][i];
      for (const Operand& operand : {step.from, step.with, step.into})
        if (extent_of(memory, operand, step.count).meets(message)) return false;
    }
  }
  return true;
}

TEST(Landing, IsWhereNothingNeedsThePlaceBefore) {
  std::map<When, int> found;
  for_each_call([&](const std::vector<Schedule>& schedules) {
    for (const Schedule& schedule : schedules) {
      const auto landings = find_landings(schedule);
      ASSERT_EQ(landings.size(), schedule.lanes.size());
      const CollectiveSpec& spec = schedule.spec;
      const InPlace place = in_place(spec.collective, spec.ranks, spec.root, schedule.rank);
      for (std::size_t lane = 0; lane < landings.size(); ++lane) {
        ASSERT_EQ(landings[lane].size(), schedule.lanes[lane].size());
        for (std::size_t index = 0; index < landings[lane].size(); ++index) {
          const Step step = schedule.lanes[lane][index];
          When expected = When::never;
          if (step.receives() && !step.with.present() && !step.finish && step.count > 0 &&
              step.into.space == Space::output &&
              is_free(schedule, Memory::apart(schedule), lane, index)) {
            const bool in_one_too =
                !place.allowed || is_free(schedule, Memory::in_one(schedule, place), lane, index);
            expected = in_one_too ? When::always : When::if_apart;
          }
          EXPECT_EQ(landings[lane][index], expected)
              << "rank " << schedule.rank << " lane " << lane << " step " << index;
          ++found[expected];
        }
      }
    }
  });
  for (const When when : {When::never, When::if_apart, When::always}) EXPECT_GT(found[when], 0);
}

/// Another lane may be at its step at any time.
TEST(Landing, IsNotWhereAnotherLaneTouchesThePlace) {
  const CollectiveSpec spec{Collective::broadcast, 2, 0};
  Schedule schedule = build_all(*find_algorithm("chain"), spec)[1];
  ASSERT_EQ(find_landings(schedule)[0][0], When::always);
  const Step first = schedule.lanes[0][0];
  Lane other;
  other.append({.target = 0, .from = first.into, .count = first.count}).wait_lane = 0;
  schedule.lanes.push_back(other);
  EXPECT_EQ(find_landings(schedule)[0][0], When::never);
}

/// There a rank is told only of what its peer computes for it.
TEST(Landing, IsOfThePeersSumsWhereOnlyThatIsWorthIt) {
  for (const bool only_computed : {false, true}) {
    const auto tells = [&](const char* algorithm, const CollectiveSpec& spec) {
      testing::ExecutorRanks ranks(
          build_all(*find_algorithm(algorithm), spec),
          {.script = {.least_landing = 1, .lands_only_computed = only_computed}});
      return !ranks.program(0).expected.empty();
    };
    EXPECT_TRUE(tells("two_shot", {Collective::all_reduce, 2, 0}));
    EXPECT_EQ(tells("two_shot", {Collective::all_reduce, 3, 0}), !only_computed);
    EXPECT_EQ(tells("one_shot", {Collective::all_gather, 2, 0}), !only_computed);
  }
}

TEST(Lending, CallsNoMessageCompleteThatIsCombined) {
  for_each_call([](const std::vector<Schedule>& schedules) {
    std::map<std::tuple<Rank, Rank, std::size_t>, std::deque<bool>> complete;
    for (const Schedule& schedule : schedules) {
      const auto loans = find_loans(schedule);
      for (std::size_t lane = 0; lane < loans.size(); ++lane) {
        for (std::size_t index = 0; index < loans[lane].size(); ++index) {
          const Step step = schedule.lanes[lane][index];
          if (!step.sends()) continue;
          complete[{schedule.rank, step.target, lane}].push_back(loans[lane][index].complete);
          EXPECT_TRUE(reduces(schedule.spec.collective) || loans[lane][index].complete);
        }
      }
    }
    for (const Schedule& schedule : schedules) {
      for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
        for (const Step& step : schedule.lanes[lane]) {
          if (!step.receives()) continue;
          std::deque<bool>& of_sender = complete[{step.source, schedule.rank, lane}];
          ASSERT_FALSE(of_sender.empty());
          EXPECT_FALSE(of_sender.front() && step.with.present())
              << "rank " << step.source << " to rank " << schedule.rank;
          of_sender.pop_front();
        }
      }
    }
  });
}

/// What the steps of all ranks that send, and of which `of` is true, say.
template <class Of>
std::map<When, int> count(std::string_view algorithm, Collective collective, Of of) {
  std::map<When, int> found;
  for (const Schedule& schedule :
       build_all(*find_algorithm(algorithm), {.collective = collective, .ranks = 4})) {
    const auto loans = find_loans(schedule);
    for (std::size_t lane = 0; lane < loans.size(); ++lane) {
      for (std::size_t index = 0; index < loans[lane].size(); ++index) {
        const Step step = schedule.lanes[lane][index];
        if (step.sends() && of(step, loans[lane][index])) ++found[loans[lane][index].lend];
      }
    }
  }
  return found;
}

/// The long way of a large call: were these refused, lending would be safe and useless.
TEST(Lending, IsThereWhereItMatters) {
  const auto all = [](const Step&, const Loan&) { return true; };
  for (const auto& [algorithm, collective] : {std::pair{"ring", Collective::all_gather},
                                              {"neighbour_exchange", Collective::all_gather},
                                              {"pairwise", Collective::all_to_all},
                                              {"linear", Collective::scatter},
                                              {"linear", Collective::gather},
                                              {"chain", Collective::broadcast}}) {
    const auto found = count(algorithm, collective, all);
    EXPECT_GT(found.contains(When::always), 0) << algorithm;
    EXPECT_EQ(found.size(), 1U) << algorithm << " for " << name_of(collective);
  }
  // In place the second phase sends what the first one finished.
  for (const char* algorithm : {"two_shot", "ring"}) {
    const auto found = count(algorithm, Collective::all_reduce,
                             [](const Step&, const Loan& loan) { return loan.complete; });
    EXPECT_GT(found.contains(When::always), 0) << algorithm;
    EXPECT_EQ(found.size(), 1U) << algorithm;
  }
}

}  // namespace
}  // namespace coll
