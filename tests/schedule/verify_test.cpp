// SPDX-License-Identifier: Apache-2.0
// What the verifier accepts, counts and says.
#include "schedule/proof/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample_schedules.hpp"
#include "schedule/builder.hpp"

namespace coll {
namespace {

using samples::Set;
using testing::AllOf;
using testing::HasSubstr;

std::string verdict(const Set& set, std::uint32_t credits = 1) {
  return verify(set, credits).status().text();
}

Verified numbers(const Set& set) {
  const auto result = verify(set);
  EXPECT_TRUE(result.ok()) << result.status().text();
  return result.ok() ? *result : Verified{};
}

using Steps = std::vector<Step>;

/// One step of a rank's lane, to be changed.
template <class Change>
void change(Set& set, std::size_t rank, std::size_t lane, std::size_t step, Change change) {
  samples::change(set[rank].lanes[lane], [&](Steps& steps) { change(steps[step]); });
}

/// Ranks that all begin with empty lanes.
Set empty_set(Collective collective, Rank ranks, std::uint32_t parts, std::uint32_t lanes = 1,
              std::uint32_t scratch_chunks = 0) {
  Set set;
  for (Rank rank = 0; rank < ranks; ++rank) {
    set.push_back(
        start_schedule("test", {collective, ranks, 0}, rank, parts, lanes, scratch_chunks));
  }
  return set;
}

TEST(Verify, AcceptsEverySampleWithAnyCredits) {
  for (const auto& [name, set] : samples::all()) {
    for (const std::uint32_t credits : {1U, 2U, 7U}) EXPECT_EQ(verdict(set, credits), "ok") << name;
  }
}

TEST(Verify, CountsARing) {
  const Verified ring = numbers(samples::ring_all_reduce(5));
  EXPECT_EQ(ring.steps_most, 9U);
  EXPECT_EQ(ring.steps_total, 45U);
  EXPECT_EQ(ring.rounds, 8U);
  EXPECT_EQ(ring.chunks_sent_most, 8U);
  EXPECT_EQ(ring.chunks_sent_total, 40U);
  EXPECT_EQ(ring.chunks_received_most, 8U);
  EXPECT_EQ(ring.chunks_reduced_most, 4U);
  EXPECT_EQ(ring.scratch_most, 0U);
  EXPECT_EQ(ring.message_most, 1U);
  EXPECT_TRUE(ring.same_order_everywhere);
}

TEST(Verify, CountsTheBusiestRankAndTheLongestMessage) {
  const Verified gather = numbers(samples::linear_gather(5, 2));
  EXPECT_EQ(gather.chunks_sent_most, 1U);
  EXPECT_EQ(gather.chunks_received_most, 4U);
  EXPECT_EQ(numbers(samples::tree_broadcast(4, 0, 3)).message_most, 3U);
}

TEST(Verify, CountsRoundsAsDependentMessages) {
  EXPECT_EQ(numbers(samples::tree_broadcast(16, 4, 2)).rounds, 4U);
  EXPECT_EQ(numbers(samples::linear_all_to_all(6, 1)).rounds, 1U);
  EXPECT_EQ(numbers(samples::dissemination_barrier(9)).rounds, 4U);
  EXPECT_EQ(numbers(samples::two_lane_chain_broadcast(6, 2, 3)).rounds, 5U);  // over waits, too
  EXPECT_EQ(numbers(samples::two_lane_star_reduce(5, 2)).scratch_most, 1U);
}

TEST(Verify, TellsEqualBitsFromEqualSums) {
  EXPECT_TRUE(numbers(samples::recursive_doubling_all_reduce(8)).same_order_everywhere);
  // Everybody adds the others to its own, each in another order.
  Set set = empty_set(Collective::all_reduce, 3, 1);
  for (Rank rank = 0; rank < 3; ++rank) {
    LaneBuilder add(set[static_cast<std::size_t>(rank)].lanes[0]);
    add.send(input(0), (rank + 1) % 3);
    add.send(input(0), (rank + 2) % 3);
    add.receive_reduce((rank + 2) % 3, input(0), output(0));
    add.receive_reduce((rank + 1) % 3, output(0), output(0)).finish = true;
  }
  // In place the input is gone after the first combination, but it was sent before.
  EXPECT_FALSE(numbers(set).same_order_everywhere);
}

/// Sets the demanded order in a set that was built without it.
Set in_tree_order(Set set) {
  for (Schedule& schedule : set) schedule.spec.order = SumOrder::tree;
  return set;
}

TEST(Verify, TellsTheOrderOfTheTreeFromOthers) {
  EXPECT_TRUE(verify(in_tree_order(samples::recursive_doubling_all_reduce(8))).ok());
  EXPECT_TRUE(verify(in_tree_order(samples::ring_all_reduce(2))).ok());
  const auto ring = verify(in_tree_order(samples::ring_all_reduce(4)));
  ASSERT_FALSE(ring.ok());
  EXPECT_NE(ring.status().text().find("another order than that of the tree"), std::string::npos)
      << ring.status().text();
}

/// Where the sides of operands count, each step says which one is on the left.
TEST(Verify, TellsTheSidesOfOperands) {
  const auto summed_at_0 = [](bool swapped_1, bool swapped_2) {
    Set set = empty_set(Collective::reduce, 3, 1);
    for (Schedule& schedule : set) schedule.spec.order = SumOrder::sided_tree;
    for (const std::size_t rank : {1U, 2U}) LaneBuilder(set[rank].lanes[0]).send(input(0), 0);
    LaneBuilder add(set[0].lanes[0]);
    add.receive_reduce(1, input(0), output(0)).swapped = swapped_1;
    Step& last = add.receive_reduce(2, output(0), output(0));
    last.swapped = swapped_2;
    last.finish = true;
    return verify(set).ok();
  };
  EXPECT_TRUE(summed_at_0(true, true)) << "own op message, for messages of higher ranks";
  EXPECT_FALSE(summed_at_0(false, true));
  EXPECT_FALSE(summed_at_0(true, false));
  Set set = empty_set(Collective::reduce, 2, 1);
  LaneBuilder(set[1].lanes[0]).send(input(0), 0).swapped = true;
  EXPECT_THAT(verdict(set), HasSubstr("swaps its operands, but has only one"));
}

TEST(Verify, NamesWhoIsMissingAndWhoCountsTwice) {
  Set set = samples::ring_all_reduce(4);
  // Rank 1 adds chunk 1 in place of chunk 0, of which the message is.
  change(set, 1, 0, 1, [](Step& step) { step.with.chunk = 1; });
  EXPECT_THAT(verdict(set), HasSubstr("in the place of part"));

  // One part: rank 0 adds rank 1's buffer twice, and rank 2's never.
  set = empty_set(Collective::reduce, 3, 1);
  LaneBuilder(set[1].lanes[0]).send(input(0), 0);
  LaneBuilder(set[1].lanes[0]).send(input(0), 0);
  LaneBuilder(set[0].lanes[0]).receive_reduce(1, input(0), output(0));
  LaneBuilder(set[0].lanes[0]).receive_reduce(1, output(0), output(0)).finish = true;
  EXPECT_THAT(verdict(set), HasSubstr("rank 0 output chunk 0: contribution of rank 1 counted "
                                      "twice, contribution of rank 2 missing"));
  EXPECT_EQ(verify(set).status().rank(), 0);
}

TEST(Verify, NamesABlockInTheWrongPlace) {
  Set set = samples::linear_gather(3, 0);
  samples::change(set[0].lanes[0], [](Steps& s) { std::swap(s[1].into, s[2].into); });
  EXPECT_THAT(verdict(set), HasSubstr("rank 0 output chunk 1: contribution of rank 1 missing, "
                                      "input 0 of rank 2 does not belong there"));
}

TEST(Verify, WantsFinishOnceAndLast) {
  const Set ring = samples::ring_all_reduce(3);
  Set set = ring;
  const auto finish = [&set](std::size_t step, bool finishes) {
    for (std::size_t rank = 0; rank < set.size(); ++rank) {
      change(set, rank, 0, step, [&](Step& s) { s.finish = finishes; });
    }
  };
  finish(2, false);
  EXPECT_THAT(verdict(set), HasSubstr("nowhere finished"));
  finish(1, true);
  EXPECT_THAT(verdict(set), HasSubstr("goes on after it is finished"));
  finish(2, true);
  EXPECT_THAT(verdict(set), HasSubstr("finished more than once"));
}

TEST(Verify, NamesUnpairedMessages) {
  Set set = samples::tree_broadcast(4, 0, 1);
  samples::change(set[2].lanes[0], [](Steps& steps) { steps.pop_back(); });
  EXPECT_THAT(verdict(set), AllOf(HasSubstr("rank 3"), HasSubstr("rank 2 sends it nothing")));
  set = samples::tree_broadcast(4, 0, 1);
  set[3].lanes[0].append(set[3].lanes[0][0]);
  EXPECT_THAT(verdict(set), HasSubstr("rank 2 sends 1 messages and rank 3 receives 2"));
  set = samples::tree_broadcast(4, 0, 2);
  change(set, 3, 0, 0, [](Step& step) { step.count = 1; });
  EXPECT_THAT(verdict(set), HasSubstr("gets a message of 2 chunks, not 1, from rank 2 lane 0"));
}

TEST(Verify, ReportsWhoWaitsForWhatInADeadlock) {
  Set set = empty_set(Collective::barrier, 2, 1);
  for (Rank rank = 0; rank < 2; ++rank) {
    LaneBuilder add(set[static_cast<std::size_t>(rank)].lanes[0]);
    add.await(1 - rank);
    add.signal(1 - rank);
  }
  EXPECT_THAT(verdict(set), AllOf(HasSubstr("deadlock"), HasSubstr("2 lanes cannot go on"),
                                  HasSubstr("rank 1 lane 0 step 0 (await, from rank 0) waits for "
                                            "a message of rank 0")));
}

TEST(Verify, ReportsLanesThatWaitForAStuckLane) {
  Set set = empty_set(Collective::broadcast, 2, 1, 3);
  for (Rank rank = 0; rank < 2; ++rank) {  // both receive before they send
    auto& lanes = set[static_cast<std::size_t>(rank)].lanes;
    LaneBuilder(lanes[0]).receive(1 - rank, output(0));
    LaneBuilder(lanes[0]).send(output(0), 1 - rank);
    for (const std::size_t lane : {1U, 2U}) {
      Step& step = LaneBuilder(lanes[lane]).send(output(0), 1 - rank);
      step.wait_lane = 0;
      step.wait_step = 0;
      Step& last = LaneBuilder(lanes[lane]).receive(1 - rank, output(0));
      last.wait_lane = 0;
      last.wait_step = 1;
    }
    // Lane 2 overwrites what lane 1 does: after it.
    change(set, static_cast<std::size_t>(rank), 2, 0, [](Step& step) {
      step.wait_lane = 1;
      step.wait_step = 1;
    });
  }
  EXPECT_THAT(verdict(set),
              AllOf(HasSubstr("6 lanes cannot go on"), HasSubstr("waits for lane 0 step 0\n"),
                    HasSubstr("waits for lane 1 step 1\n")));
}

TEST(Verify, DependsOnCredits) {
  Set set = empty_set(Collective::all_gather, 2, 2);
  for (Rank rank = 0; rank < 2; ++rank) {
    const auto own = static_cast<std::uint32_t>(rank) * 2;
    LaneBuilder add(set[static_cast<std::size_t>(rank)].lanes[0]);
    add.copy_send(input(0), output(own), 1 - rank);
    add.copy_send(input(1), output(own + 1), 1 - rank);
    add.receive(1 - rank, output(2 - own));
    add.receive(1 - rank, output(3 - own));
  }
  EXPECT_EQ(verdict(set, 2), "ok");
  EXPECT_THAT(verdict(set, 1), HasSubstr("waits for a credit of rank 0"));
}

TEST(Verify, WantsLanesOrdered) {
  Set set = samples::two_lane_chain_broadcast(3, 0, 1);
  change(set, 1, 1, 0, [](Step& step) { step.wait_lane = -1; });
  EXPECT_THAT(verdict(set), HasSubstr("no wait orders them"));
  set = samples::two_lane_chain_broadcast(3, 0, 1);
  change(set, 1, 0, 0, [](Step& step) {
    step.wait_lane = 1;
    step.wait_step = 0;
  });
  EXPECT_THAT(verdict(set), HasSubstr("circle of waits"));

  // A write after a read by another lane.
  set = empty_set(Collective::broadcast, 1, 1, 2, 1);
  LaneBuilder(set[0].lanes[0]).copy(input(0), output(0));
  LaneBuilder(set[0].lanes[0]).copy(output(0), scratch(0));
  Step& again = LaneBuilder(set[0].lanes[1]).copy(input(0), output(0));
  again.wait_lane = 0;
  again.wait_step = 0;
  EXPECT_THAT(verdict(set), HasSubstr("and lane 0 step 1 use the same chunk"));
  again.wait_step = 1;
  EXPECT_EQ(verdict(set), "ok");
}

TEST(Verify, WantsScratchPrivateAndWrittenInThePass) {
  Set set = empty_set(Collective::broadcast, 1, 1, 2, 1);
  LaneBuilder(set[0].lanes[0]).copy(input(0), scratch(0));
  Step& step = LaneBuilder(set[0].lanes[1]).copy(scratch(0), output(0));
  step.wait_lane = 0;
  step.wait_step = 0;
  EXPECT_THAT(verdict(set), HasSubstr("scratch is private to a lane"));

  set = empty_set(Collective::broadcast, 1, 1, 1, 1);
  LaneBuilder add(set[0].lanes[0]);
  add.copy(scratch(0), output(0));
  add.copy(input(0), scratch(0));
  EXPECT_THAT(verdict(set), HasSubstr("reads scratch 0, which nothing has been written to"));
}

TEST(Verify, FindsWhatIsWrongInPlaceOnly) {
  // The first copy is harmless apart; in place it writes over rank 0's only input.
  Set set = empty_set(Collective::all_gather, 2, 1);
  LaneBuilder first(set[0].lanes[0]);
  first.receive(1, output(0));
  first.send(input(0), 1);
  first.receive(1, output(1));
  first.copy(input(0), output(0));
  LaneBuilder second(set[1].lanes[0]);
  second.copy_send(input(0), output(1), 0);
  second.send(input(0), 0);
  second.receive(0, output(0));
  EXPECT_THAT(verdict(set), AllOf(HasSubstr("in place: "), HasSubstr("contribution of rank 0")));
}

TEST(Verify, WantsTheSameMessagesInPlace) {
  // Rank 0 loses its input in place, but has sent it away and gets it back; only a message that
  // nobody needs shows it. Were it needed, a rank in place and one apart could not work together.
  Set set = empty_set(Collective::all_gather, 2, 1, 1, 1);
  LaneBuilder first(set[0].lanes[0]);
  first.send(input(0), 1);
  first.receive(1, output(0));
  first.send(input(0), 1);
  first.receive(1, output(0));
  first.receive(1, output(1));
  LaneBuilder second(set[1].lanes[0]);
  second.receive(0, output(0));
  second.send(input(0), 0);
  second.receive(0, scratch(0));
  second.send(output(0), 0);
  second.copy_send(input(0), output(1), 0);
  EXPECT_THAT(verdict(set), HasSubstr("rank 0 lane 0 sends something else than out of place"));
}

TEST(Verify, RefusesSpacesTheRankDoesNotHave) {
  Set set = samples::tree_broadcast(2, 0, 1);
  LaneBuilder(set[1].lanes[0]).copy(input(0), output(0));
  EXPECT_THAT(verdict(set), HasSubstr("names input 0, but the rank has 0 such chunks"));
  set = samples::tree_broadcast(2, 0, 2);
  change(set, 1, 0, 0, [](Step& step) { step.into.chunk = 1; });
  EXPECT_THAT(verdict(set), HasSubstr("names output 1..2, but the rank has 2 such chunks"));
  set = samples::ring_all_reduce(2);
  LaneBuilder(set[0].lanes[0]).copy(output(0), input(0));
  EXPECT_THAT(verdict(set), HasSubstr("writes the input"));
}

TEST(Verify, RefusesPartialOverlap) {
  Set set = empty_set(Collective::all_reduce, 1, 3);
  LaneBuilder(set[0].lanes[0]).copy(input(0), output(0), 3);
  EXPECT_EQ(verdict(set), "ok");
  LaneBuilder(set[0].lanes[0]).copy(output(0), output(1), 2);
  EXPECT_THAT(verdict(set), HasSubstr("writes over a part of output 0..1"));
  change(set, 0, 0, 1, [](Step& step) { step.from = input(0); });
  EXPECT_THAT(verdict(set), HasSubstr("in place writes over a part of input 0..1"));
}

TEST(Verify, KeepsPartsOfDifferentLengthApart) {
  Set set = empty_set(Collective::broadcast, 1, 2, 1, 2);
  LaneBuilder add(set[0].lanes[0]);
  add.copy(input(0), output(0), 2);
  EXPECT_EQ(verdict(set), "ok");
  add.copy(input(1), scratch(0));
  EXPECT_THAT(verdict(set), HasSubstr("puts part 1 of a block in the place of part 0"));

  set = empty_set(Collective::reduce, 1, 2);
  LaneBuilder(set[0].lanes[0]).reduce(input(0), input(1), output(0));
  EXPECT_THAT(verdict(set), HasSubstr("puts part 1 of a block in the place of part 0"));
}

TEST(Verify, KnowsWhoHasEnteredABarrier) {
  Set set = samples::dissemination_barrier(5);
  for (Schedule& schedule : set) {  // the last round is missing
    samples::change(schedule.lanes[0], [](Steps& steps) { steps.resize(4); });
  }
  EXPECT_THAT(verdict(set), HasSubstr("may not have entered it"));
}

TEST(Verify, AcceptsPairsAmongIdleRanks) {
  EXPECT_EQ(verdict(samples::pair(5, 1, 3)), "ok");
  Set set = samples::pair(5, 1, 3);
  set[3].spec.root = 2;
  EXPECT_THAT(verdict(set), HasSubstr("rank 1 has steps to send, but rank 3 does not"));
  set = samples::pair(2, 0, 1);
  set[0].lanes[0] = Lane();
  set[1].lanes[0] = Lane();
  EXPECT_THAT(verdict(set), HasSubstr("rank 1 output chunk 0: never written"));
}

TEST(Verify, WantsSchedulesThatBelongTogether) {
  EXPECT_FALSE(verify({}).ok());
  Set set = samples::ring_all_reduce(3);
  EXPECT_FALSE(verify(std::span(set).first(2)).ok());
  EXPECT_FALSE(verify(set, 0).ok());
  set[2].spec.collective = Collective::reduce_scatter;
  EXPECT_THAT(verdict(set), HasSubstr("runs another reduce_scatter than rank 0's all_reduce"));
  set = samples::ring_all_reduce(3);
  set[1].chunks.parts = 4;
  EXPECT_THAT(verdict(set), HasSubstr("rank 1 has a chunk map"));
  std::swap(set[0], set[1]);
  EXPECT_THAT(verdict(set), HasSubstr("rank 0 has the schedule of rank 1"));
}

TEST(Verify, IsLinearEnoughForAThousandRanks) {
  EXPECT_EQ(numbers(samples::ring_all_gather(1025)).steps_total, 1025U * 1025U);
  EXPECT_EQ(numbers(samples::dissemination_barrier(1025)).rounds, 11U);
  EXPECT_EQ(numbers(samples::recursive_doubling_all_reduce(1024)).rounds, 10U);
}

}  // namespace
}  // namespace coll
