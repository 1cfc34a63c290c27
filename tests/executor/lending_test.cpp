// SPDX-License-Identifier: Apache-2.0
// A message is lent only where nothing overwrites it, and lands only where nothing needs the place
// before; where it matters both happen.
#include "executor/lending.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "collectives/built.hpp"
#include "executor_ranks.hpp"
#include "user_memory.hpp"

namespace coll {
namespace {

using When = BoundStep::When;

/// A step of one rank.
struct At {
  Rank rank = 0;
  std::size_t lane = 0, index = 0;
  friend auto operator<=>(const At&, const At&) = default;
};

/// Which steps of all ranks come before which others: a lane's in their order, a message's sender
/// before its receiver.
class Order {
 public:
  explicit Order(const std::vector<Schedule>& schedules) : schedules_(&schedules) {
    std::map<std::tuple<Rank, Rank, std::size_t>, std::deque<At>> sent;
    const auto each = [&](auto visit) {
      for (const Schedule& schedule : schedules)
        for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane)
          for (std::size_t index = 0; index < schedule.lanes[lane].size(); ++index)
            visit(schedule.lanes[lane][index], At{schedule.rank, lane, index});
    };
    each([&](const Step& step, const At& at) {
      if (step.sends()) sent[{at.rank, step.target, at.lane}].push_back(at);
    });
    each([&](const Step& step, const At& at) {
      if (!step.receives()) return;
      std::deque<At>& messages = sent[{step.source, at.rank, at.lane}];
      receiver_[messages.front()] = at;
      sender_[at] = messages.front();
      messages.pop_front();
    });
  }
  [[nodiscard]] const At& receiver(const At& sends) const { return receiver_.at(sends); }
  /// Is its message read before the step sends anything? Not if it passes the message on and keeps
  /// it: it sends first.
  [[nodiscard]] bool reads_first(const At& receives) const {
    const Step step =
        (*schedules_)[static_cast<std::size_t>(receives.rank)].lanes[receives.lane][receives.index];
    return step.with.present() || !step.into.present() || !step.sends();
  }
  [[nodiscard]] const At& sender(const At& receives) const { return sender_.at(receives); }
  /// Is `first` over, or `last` itself, whenever `last` begins?
  [[nodiscard]] bool precedes(const At& first, const At& last) const {
    std::set<At> seen;
    std::vector<At> left{first};
    while (!left.empty()) {
      const At at = left.back();
      left.pop_back();
      if (at == last) return true;
      if (!seen.insert(at).second) continue;
      if (const auto to = receiver_.find(at); to != receiver_.end()) left.push_back(to->second);
      const Schedule& schedule = (*schedules_)[static_cast<std::size_t>(at.rank)];
      if (at.index + 1 < schedule.lanes[at.lane].size())
        left.push_back({at.rank, at.lane, at.index + 1});
    }
    return false;
  }

 private:
  const std::vector<Schedule>* schedules_;
  std::map<At, At> receiver_, sender_;
};

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
Operand lent_by(const Step& step) {
  return step.from.present() && !step.with.present() ? step.from : step.into;
}

/// Whatever else the ranks do, has the peer read the lent message before a step of this rank writes
/// there?
bool is_read_first(const Order& order, const Schedule& schedule, const Memory& memory,
                   const At& at) {
  const Step lends = schedule.lanes[at.lane][at.index];
  const Extent message = extent_of(memory, lent_by(lends), lends.count);
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    for (std::size_t index = 0; index < schedule.lanes[lane].size(); ++index) {
      const At other{schedule.rank, lane, index};
      const Step step = schedule.lanes[lane][index];
      if (!extent_of(memory, step.into, step.count).meets(message)) continue;
      if (lane == at.lane && index < at.index) continue;
      const At& reader = order.receiver(at);
      if (!order.reads_first(reader) || !order.precedes(reader, other)) return false;
    }
  }
  return true;
}

TEST(Lending, IsOfMemoryThatNothingOverwrites) {
  int round_trips = 0;
  for_each_call([&](const std::vector<Schedule>& schedules) {
    const Order order(schedules);
    for (const Schedule& schedule : schedules) {
      const auto loans = find_loans(schedule);
      ASSERT_EQ(loans.size(), schedule.lanes.size());
      const CollectiveSpec& spec = schedule.spec;
      const InPlace place = in_place(spec.collective, spec.ranks, spec.root, schedule.rank);
      const Memory apart = Memory::apart(schedule), in_one = Memory::in_one(schedule, place);
      for (std::size_t lane = 0; lane < loans.size(); ++lane) {
        ASSERT_EQ(loans[lane].size(), schedule.lanes[lane].size());
        for (std::size_t index = 0; index < loans[lane].size(); ++index) {
          const Step step = schedule.lanes[lane][index];
          const Operand lent = lent_by(step);
          const bool users = lent.space == Space::input || lent.space == Space::output;
          When expected = When::never;
          if (step.sends() && step.count > 0 && users && stays(schedule, apart, lane, index, lent))
            expected = When::if_apart;
          const When found = loans[lane][index].lend;
          if (expected == When::if_apart) {
            const bool stays_in_one = !place.allowed || stays(schedule, in_one, lane, index, lent);
            const bool trips = found == When::always && !stays_in_one;
            if (stays_in_one || trips) expected = When::always;
            if (trips) {
              ++round_trips;
              EXPECT_TRUE(is_read_first(order, schedule, in_one, {schedule.rank, lane, index}))
                  << "rank " << schedule.rank << " lane " << lane << " step " << index;
            }
          }
          EXPECT_EQ(found, expected)
              << "rank " << schedule.rank << " lane " << lane << " step " << index;
        }
      }
    }
  });
  EXPECT_GT(round_trips, 0);
}

/// The steps of this rank that need the message's place, other than after it.
std::vector<At> needs(const Schedule& schedule, const Memory& memory, const At& at) {
  std::vector<At> found;
  const Step own = schedule.lanes[at.lane][at.index];
  const Extent message = extent_of(memory, own.into, own.count);
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    for (std::size_t index = 0; index < schedule.lanes[lane].size(); ++index) {
      if (lane == at.lane && index >= at.index) break;
      const Step step = schedule.lanes[lane][index];
      for (const Operand& operand : {step.from, step.with, step.into})
        if (extent_of(memory, operand, step.count).meets(message))
          found.push_back({schedule.rank, lane, index});
    }
  }
  return found;
}

/// Has the peer of each of these steps read what it sends before the message's sender can write
/// it, at the earliest as it reads that?
bool are_over(const Order& order, const std::vector<Schedule>& schedules,
              const std::vector<At>& needed, const At& message) {
  return std::ranges::all_of(needed, [&](const At& at) {
    const Step step = schedules[static_cast<std::size_t>(at.rank)].lanes[at.lane][at.index];
    return step.sends() && !step.into.present() && order.reads_first(order.receiver(at)) &&
           order.precedes(order.receiver(at), order.sender(message));
  });
}

TEST(Landing, IsWhereNothingNeedsThePlaceBefore) {
  std::map<When, int> found;
  int round_trips = 0;
  for_each_call([&](const std::vector<Schedule>& schedules) {
    const Order order(schedules);
    for (const Schedule& schedule : schedules) {
      const auto landings = find_landings(schedule);
      ASSERT_EQ(landings.size(), schedule.lanes.size());
      const CollectiveSpec& spec = schedule.spec;
      const InPlace place = in_place(spec.collective, spec.ranks, spec.root, schedule.rank);
      for (std::size_t lane = 0; lane < landings.size(); ++lane) {
        ASSERT_EQ(landings[lane].size(), schedule.lanes[lane].size());
        for (std::size_t index = 0; index < landings[lane].size(); ++index) {
          const Step step = schedule.lanes[lane][index];
          const At at{schedule.rank, lane, index};
          When expected = When::never;
          if (step.receives() && !step.with.present() && !step.finish && step.count > 0 &&
              step.into.space == Space::output &&
              needs(schedule, Memory::apart(schedule), at).empty()) {
            const std::vector<At> needed = needs(schedule, Memory::in_one(schedule, place), at);
            const bool free = !place.allowed || needed.empty();
            const auto [when, part_first] = landings[lane][index];
            EXPECT_EQ(part_first, when == When::always && !free);
            if (part_first) {
              ++round_trips;
              EXPECT_TRUE(are_over(order, schedules, needed, at))
                  << "rank " << schedule.rank << " lane " << lane << " step " << index;
            }
            expected = free || part_first ? When::always : When::if_apart;
          }
          EXPECT_EQ(landings[lane][index].when, expected)
              << "rank " << schedule.rank << " lane " << lane << " step " << index;
          ++found[expected];
        }
      }
    }
  });
  for (const When when : {When::never, When::if_apart, When::always}) EXPECT_GT(found[when], 0);
  EXPECT_GT(round_trips, 0);
}

/// Another lane may be at its step at any time.
TEST(Landing, IsNotWhereAnotherLaneTouchesThePlace) {
  const CollectiveSpec spec{Collective::broadcast, 2, 0};
  Schedule schedule = build_all(*find_algorithm("chain"), spec)[1];
  ASSERT_EQ(find_landings(schedule)[0][0].when, When::always);
  const Step first = schedule.lanes[0][0];
  Lane other;
  other.append({.target = 0, .from = first.into, .count = first.count}).wait_lane = 0;
  schedule.lanes.push_back(other);
  EXPECT_EQ(find_landings(schedule)[0][0].when, When::never);
}

/// Rank 0's schedule of an all_reduce of two chunks between two ranks, with these steps.
Schedule of_steps(const std::vector<std::vector<Step>>& lanes) {
  Schedule schedule = build_all(*find_algorithm("two_shot"), {Collective::all_reduce, 2, 0})[0];
  schedule.lanes.clear();
  for (const std::vector<Step>& steps : lanes)
    for (Lane& lane = schedule.lanes.emplace_back(); const Step& step : steps) lane.append(step);
  return schedule;
}

/// In place, where only the result takes the place of the part, and nobody else needs the part.
TEST(Landing, InPlaceIsWhereThePartWasSentOnce) {
  const Operand in{Space::input, 1}, out{Space::output, 1}, scratch{Space::scratch, 1};
  const Step part{.target = 1, .from = in}, result{.source = 1, .into = out};
  const auto comes_back = [&](const std::vector<std::vector<Step>>& lanes, std::size_t of_result) {
    const Schedule schedule = of_steps(lanes);
    const auto [when, part_first] = find_landings(schedule)[0][of_result];
    EXPECT_EQ(find_loans(schedule)[0][0].lend == When::always, part_first);
    EXPECT_EQ(when == When::always, part_first);
    return part_first;
  };
  EXPECT_TRUE(comes_back({{part, result}}, 1));
  EXPECT_TRUE(comes_back({{part, result, {.target = 1, .from = out}}}, 1)) << "passed on";
  EXPECT_FALSE(comes_back({{part, part, result}}, 2)) << "the peer may read the second one late";
  for (const Operand& into : {out, scratch})
    EXPECT_FALSE(comes_back({{{.target = 1, .from = in, .into = into}, result}}, 1)) << "kept";
  for (const Operand& with : {in, scratch})
    EXPECT_FALSE(comes_back({{part, {.source = 1, .with = with, .into = out}}}, 1)) << "combined";
  EXPECT_FALSE(comes_back({{part, result, {.source = 1, .with = in, .into = out}}}, 1)) << "later";
  EXPECT_FALSE(comes_back({{part, {.from = scratch, .into = out}}}, 1)) << "not received";
  EXPECT_FALSE(comes_back({{{.from = in, .into = scratch}, result}}, 1)) << "not sent";
  EXPECT_FALSE(comes_back({{part, result, {.from = in, .into = out}}}, 1)) << "written again";
  EXPECT_FALSE(comes_back({{part}, {result}}, 0)) << "in another lane";
  EXPECT_FALSE(comes_back({{part, result}, {{.target = 1, .from = in}}}, 1)) << "by another lane";
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
  // In place the first phase sends parts whose results come back there, the second phase what the
  // first one finished.
  const auto parts = count("two_shot", Collective::all_reduce,
                           [](const Step&, const Loan& loan) { return !loan.complete; });
  EXPECT_EQ(parts, (std::map<When, int>{{When::always, 12}}));
  for (const char* algorithm : {"two_shot", "ring"}) {
    const auto found = count(algorithm, Collective::all_reduce,
                             [](const Step&, const Loan& loan) { return loan.complete; });
    EXPECT_GT(found.contains(When::always), 0) << algorithm;
    EXPECT_EQ(found.size(), 1U) << algorithm;
  }
}

}  // namespace
}  // namespace coll
