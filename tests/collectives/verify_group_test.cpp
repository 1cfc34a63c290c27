// SPDX-License-Identifier: Apache-2.0
// Groups of calls: which orders of issue the proof accepts, and which it refuses.
#include "schedule/proof/verify_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "collectives/built.hpp"
#include "schedule/builder.hpp"
#include "schedule/proof/verify.hpp"
#include "test_seed.hpp"

namespace coll {
namespace {

using ::testing::HasSubstr;
using Orders = std::vector<std::vector<std::uint32_t>>;  // by rank

/// Sends and receives have connections of their own, as the engine gives them.
enum : std::uint32_t { kCollectiveConnections, kPairConnections };

GroupedSchedules collective(const Algorithm& algorithm, Collective what, Rank ranks, Rank root) {
  return {build_all(algorithm, {what, ranks, root}), kCollectiveConnections};
}

GroupedSchedules message(Rank ranks, Rank from, Rank to) {
  const Algorithm& direct = *find_algorithm("direct");
  GroupedSchedules call;
  call.connections = kPairConnections;
  for (Rank rank = 0; rank < ranks; ++rank) {
    CollectiveSpec spec{Collective::send, ranks, to};
    if (rank == to) spec = {Collective::recv, ranks, from};
    call.schedules.push_back(rank == from || rank == to
                                 ? direct.build(spec, Layout::flat(ranks), rank)
                                 : start_schedule("idle", spec, rank, 1));
    if (rank != from && rank != to) call.schedules.back().lanes.clear();
  }
  return call;
}

/// The calls that the rank has a part in, in their order.
std::vector<std::uint32_t> own_calls(const std::vector<GroupedSchedules>& calls, Rank rank) {
  std::vector<std::uint32_t> own;
  for (std::uint32_t call = 0; call < calls.size(); ++call) {
    if (!calls[call].schedules[static_cast<std::size_t>(rank)].lanes.empty()) own.push_back(call);
  }
  return own;
}

Orders as_listed(const std::vector<GroupedSchedules>& calls, Rank ranks) {
  Orders orders;
  for (Rank rank = 0; rank < ranks; ++rank) orders.push_back(own_calls(calls, rank));
  return orders;
}

std::string failure_of(const std::vector<GroupedSchedules>& calls, const Orders& orders) {
  const Status status = verify_group(calls, orders);
  EXPECT_FALSE(status.ok());
  return status.text();
}

/// What a user may do: all ranks issue the collectives in one order, and both ends of a pair issue
/// its messages in one order. Everything else is each rank's own choice.
Orders drawn_orders(const std::vector<GroupedSchedules>& calls,
                    const std::map<std::uint32_t, std::pair<Rank, Rank>>& messages, Rank ranks,
                    std::mt19937_64& random) {
  Orders orders;
  for (Rank rank = 0; rank < ranks; ++rank) {
    // Sequences of calls that keep their order: the collectives, and the messages of each
    // direction.
    std::map<std::pair<Rank, Rank>, std::vector<std::uint32_t>> sequences;
    for (const std::uint32_t call : own_calls(calls, rank)) {
      const auto found = messages.find(call);
      sequences[found == messages.end() ? std::pair{kNoRank, kNoRank} : found->second].push_back(
          call);
    }
    std::vector<std::uint32_t>& order = orders.emplace_back();
    while (!sequences.empty()) {
      auto at = sequences.begin();
      std::advance(at, random() % sequences.size());
      order.push_back(at->second.front());
      at->second.erase(at->second.begin());
      if (at->second.empty()) sequences.erase(at);
    }
  }
  return orders;
}

TEST(VerifyGroup, AcceptsWhatUsersMayDo) {
  std::mt19937_64 random(test::test_seed());
  for (int sample = 0; sample < 300; ++sample) {
    const auto ranks = static_cast<Rank>(2 + random() % 7);
    const auto any_rank = [&] {
      return static_cast<Rank>(random() % static_cast<unsigned>(ranks));
    };
    std::vector<GroupedSchedules> calls;
    std::map<std::uint32_t, std::pair<Rank, Rank>> messages;
    while (calls.size() < 2 + random() % 8) {
      if (random() % 2 == 0) {
        const Rank from = any_rank(), to = any_rank();
        if (from == to) continue;
        messages[static_cast<std::uint32_t>(calls.size())] = {from, to};
        calls.push_back(message(ranks, from, to));
        continue;
      }
      const Algorithm& algorithm = algorithms()[random() % algorithms().size()];
      const CollectiveSpec spec{collective_at(static_cast<int>(random() % kCollectives)), ranks,
                                any_rank()};
      const bool pair = spec.collective == Collective::send || spec.collective == Collective::recv;
      if (pair || !algorithm.supports(spec, Layout::flat(ranks))) continue;
      calls.push_back(
          collective(algorithm, spec.collective, ranks, has_root(spec.collective) ? spec.root : 0));
      ASSERT_TRUE(verify(calls.back().schedules).ok()) << "each call ends alone";
    }
    const Status status = verify_group(calls, drawn_orders(calls, messages, ranks, random));
    ASSERT_TRUE(status.ok()) << status.text() << " in sample " << sample;
  }
}

TEST(VerifyGroup, TwoRanksMayBothSendFirst) {
  const std::vector<GroupedSchedules> calls{message(2, 0, 1), message(2, 1, 0)};
  EXPECT_TRUE(verify_group(calls, Orders{{0, 1}, {1, 0}}).ok());
}

TEST(VerifyGroup, RefusesCollectivesInTwoOrders) {
  const Algorithm& ring = *find_algorithm("ring");
  const std::vector<GroupedSchedules> calls{collective(ring, Collective::all_reduce, 3, 0),
                                            collective(ring, Collective::all_gather, 3, 0)};
  EXPECT_TRUE(verify_group(calls, as_listed(calls, 3)).ok());
  EXPECT_THAT(
      failure_of(calls, {{0, 1}, {1, 0}, {0, 1}}),
      HasSubstr(
          "rank 0 serves call 0 (all_reduce) as number 0 on lane 0 to rank 1, which serves call 1 "
          "(all_gather)"));
}

TEST(VerifyGroup, RefusesMessagesOfAPairInTwoOrders) {
  const std::vector<GroupedSchedules> calls{message(2, 0, 1), message(2, 0, 1)};
  EXPECT_THAT(failure_of(calls, {{0, 1}, {1, 0}}),
              HasSubstr("to rank 1, which serves call 1 (send)"));
}

/// A message that goes from rank to rank.
GroupedSchedules chain(const std::vector<Rank>& way) {
  GroupedSchedules call;
  const auto ranks = static_cast<Rank>(way.size());
  for (Rank rank = 0; rank < ranks; ++rank) {
    Schedule& schedule = call.schedules.emplace_back(
        start_schedule("chain", {Collective::broadcast, ranks, way.front()}, rank, 1));
    LaneBuilder lane(schedule.lanes[0]);
    const auto at = std::ranges::find(way, rank);
    if (at == way.begin()) {
      lane.send(input(0), at[1]);
    } else if (at + 1 == way.end()) {
      lane.receive(at[-1], output(0));
    } else {
      lane.receive_send(at[-1], output(0), at[1]);
    }
  }
  return call;
}

/// Both ends of every direction agree, and still nothing moves: ranks 0 and 1 hold the second
/// call's message back until the first has passed, and ranks 2 and 3 the first call's.
TEST(VerifyGroup, RefusesCallsThatWaitForEachOther) {
  const std::vector<GroupedSchedules> calls{chain({2, 3, 0, 1}), chain({0, 1, 2, 3})};
  EXPECT_TRUE(verify_group(calls, as_listed(calls, 4)).ok());
  EXPECT_THAT(
      failure_of(calls, {{0, 1}, {0, 1}, {1, 0}, {1, 0}}),
      HasSubstr(
          "calls wait for each other, on different ranks: call 0 (broadcast), call 1 (broadcast)"));
}

TEST(VerifyGroup, RefusesCallsThatARankLeavesOutOrIssuesTwice) {
  const std::vector<GroupedSchedules> calls{message(2, 0, 1)};
  EXPECT_THAT(failure_of(calls, {{0}, {}}),
              HasSubstr("rank 1 does not issue call 0 (send), which has lanes for it"));
  EXPECT_THAT(failure_of(calls, {{0}, {0, 0}}), HasSubstr("rank 1 issues call 0 twice"));
  EXPECT_THAT(failure_of(calls, {{0, 7}, {0}}),
              HasSubstr("rank 0 issues call 7, which there is not"));
}

}  // namespace
}  // namespace coll
