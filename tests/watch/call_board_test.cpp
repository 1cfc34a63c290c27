// SPDX-License-Identifier: Apache-2.0
// Calls as text, and noted while another thread reads.
#include "watch/call_board.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace coll {
namespace {

Call all_reduce(std::uint64_t sequence, std::uint64_t count) {
  return {sequence,      Collective::all_reduce, DataType::float32,
          ReduceOp::sum, CallForm::usual,        kNoRank,
          count};
}

TEST(Call, TextNamesWhatMatters) {
  EXPECT_EQ(all_reduce(41, 4096).text(), "all_reduce #41 f32x4096 sum");
  EXPECT_EQ((Call{42, Collective::broadcast, DataType::int8, ReduceOp::sum, CallForm::usual, 3, 16}
                 .text()),
            "broadcast #42 int8x16 root 3");
  EXPECT_EQ(
      (Call{2, Collective::send, DataType::float32, ReduceOp::sum, CallForm::usual, 5, 1}.text()),
      "send #2 f32x1 peer 5");
  EXPECT_EQ(
      (Call{7, Collective::barrier, DataType::int8, ReduceOp::sum, CallForm::usual, kNoRank, 0}
           .text()),
      "barrier #7");
  EXPECT_EQ(
      (Call{9, Collective::reduce, DataType::float64, ReduceOp::max, CallForm::usual, 0, 3}.text()),
      "reduce #9 f64x3 max root 0");
  EXPECT_EQ((Call{1, Collective::recv, DataType::int64, ReduceOp::sum, CallForm::tagged, kNoRank, 3}
                 .text()),
            "recv_tagged #1 int64x3 any peer");
  EXPECT_EQ(Call{}.text(), "no call");
}

TEST(CallBoard, TellsInsideFromBetween) {
  CallBoard board;
  EXPECT_EQ(board.read(), CallBoard::Reading{});
  const std::uint64_t place = board.enter(all_reduce(1, 10));
  EXPECT_EQ(board.read(), (CallBoard::Reading{all_reduce(1, 10), true, 0, 1, 1}));
  board.leave(place);
  EXPECT_EQ(board.read(), (CallBoard::Reading{all_reduce(1, 10), false, 0, 1, 1}));
  const Call send{1, Collective::send, DataType::uint8, ReduceOp::sum, CallForm::usual, 2, 5};
  board.enter(send);
  EXPECT_EQ(board.read(), (CallBoard::Reading{send, true, 0, 2, 1})) << "a send is no collective";
}

TEST(CallBoard, IsHalfFullWithHalfOfItsPlaces) {
  CallBoard board;
  for (std::uint64_t n = 1; n < CallBoard::kKept / 2; ++n) board.enter(all_reduce(n, 1));
  EXPECT_FALSE(board.half_full());
  const std::uint64_t place = board.enter(all_reduce(99, 1));
  EXPECT_TRUE(board.half_full());
  board.leave(place);
  EXPECT_FALSE(board.half_full()) << "a call that it was in does not count";
}

TEST(CallBoard, KnowsAllCallsThatTheRankIsIn) {
  CallBoard board;
  std::vector<std::uint64_t> places;
  for (std::uint64_t n = 1; n <= 4; ++n) places.push_back(board.enter(all_reduce(n, 10 * n)));
  EXPECT_EQ(board.read(), (CallBoard::Reading{all_reduce(1, 10), true, 3, 4, 4}));
  board.leave(places[0]);
  board.leave(places[2]);
  EXPECT_EQ(board.read(), (CallBoard::Reading{all_reduce(2, 20), true, 1, 4, 4}));
  EXPECT_EQ(board.open_calls(), (std::vector<Call>{all_reduce(2, 20), all_reduce(4, 40)}));
  board.leave(places[3]);
  board.leave(places[1]);
  EXPECT_EQ(board.read(), (CallBoard::Reading{all_reduce(4, 40), false, 0, 4, 4}));
  EXPECT_TRUE(board.open_calls().empty());
}

TEST(CallBoard, NotesNoMoreCallsThanItHolds) {
  CallBoard board;
  std::vector<std::uint64_t> places;
  for (std::uint64_t n = 1; n <= CallBoard::kKept + 2; ++n) {
    places.push_back(board.enter(all_reduce(n, n)));
    EXPECT_EQ(places.back() == 0, n > CallBoard::kKept);
  }
  EXPECT_EQ(board.read(), (CallBoard::Reading{all_reduce(1, 1), true, CallBoard::kKept - 1,
                                              CallBoard::kKept, CallBoard::kKept + 2}));
  EXPECT_EQ(board.open_calls().size(), CallBoard::kKept);
  for (const std::uint64_t place : places) board.leave(place);
  EXPECT_FALSE(board.read().inside);
}

/// However many calls come and go beside it.
TEST(CallBoard, ACallKeepsItsPlaceWhileItLasts) {
  CallBoard board;
  const Call recv{1, Collective::recv, DataType::uint8, ReduceOp::sum, CallForm::usual, 2, 7};
  const std::uint64_t place = board.enter(recv);
  for (std::uint64_t n = 1; n <= 100; ++n) {
    const std::uint64_t other = board.enter(all_reduce(n, n));
    EXPECT_EQ(board.read().call, recv);
    EXPECT_EQ(board.read().others, 1U);
    EXPECT_EQ(board.counterpart(all_reduce(n, 0), 4), all_reduce(n, n));
    board.leave(other);
  }
  board.leave(place);
  EXPECT_EQ(board.read().call, all_reduce(100, 100));
  EXPECT_FALSE(board.read().inside);
}

TEST(CallBoard, RemembersTheCounterpartOfACall) {
  CallBoard board;
  const Call to_2{1, Collective::send, DataType::uint8, ReduceOp::sum, CallForm::usual, 2, 5};
  const Call to_3{1, Collective::send, DataType::uint8, ReduceOp::sum, CallForm::usual, 3, 6};
  const Call from_2{1, Collective::recv, DataType::uint8, ReduceOp::sum, CallForm::usual, 2, 7};
  for (const Call& call : {all_reduce(1, 10), to_2, from_2, to_3, all_reduce(2, 20)}) {
    board.leave(board.enter(call));
  }
  EXPECT_EQ(board.counterpart(all_reduce(1, 999), 4), all_reduce(1, 10));
  EXPECT_EQ(board.counterpart(all_reduce(3, 10), 4), std::nullopt);
  const Call recv_here{1, Collective::recv, DataType::uint8, ReduceOp::sum, CallForm::usual, 0, 9};
  const Call send_here{1, Collective::send, DataType::uint8, ReduceOp::sum, CallForm::usual, 0, 9};
  EXPECT_EQ(board.counterpart(recv_here, 2), to_2);
  EXPECT_EQ(board.counterpart(recv_here, 3), to_3);
  EXPECT_EQ(board.counterpart(send_here, 2), from_2);
  const Call tagged{1, Collective::recv, DataType::uint8, ReduceOp::sum, CallForm::tagged, 0, 9};
  EXPECT_EQ(board.counterpart(tagged, 2), std::nullopt) << "the ends number them differently";
  EXPECT_EQ(board.counterpart(send_here, 3), std::nullopt);
  for (std::uint64_t n = 3; n < 3 + CallBoard::kKept; ++n) board.enter(all_reduce(n, n));
  EXPECT_EQ(board.counterpart(all_reduce(2, 0), 4), std::nullopt) << "forgotten";
}

// Every field of a call follows from its number, so a torn reading shows.
TEST(CallBoard, ReadersNeverSeeHalfACall) {
  CallBoard board;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (std::uint64_t n = 1; n <= 200000; ++n) {
      board.leave(
          board.enter({n, static_cast<Collective>(n % kCollectives),
                       static_cast<DataType>(n % kDataTypes), static_cast<ReduceOp>(n % kReduceOps),
                       CallForm::usual, static_cast<Rank>(n % 1000), 3 * n}));
    }
    done.store(true);
  });
  std::uint64_t last = 0;
  std::uint64_t read = 0;
  while (!done.load() || read == 0) {
    const Call call = board.read().call;
    const std::uint64_t n = call.sequence;
    ASSERT_GE(n, last);
    last = n;
    if (n == 0) continue;
    ++read;
    ASSERT_EQ(call.count, 3 * n);
    ASSERT_EQ(call.root, static_cast<Rank>(n % 1000));
    ASSERT_EQ(static_cast<std::uint64_t>(call.collective), n % kCollectives);
    ASSERT_EQ(static_cast<std::uint64_t>(call.type), n % kDataTypes);
    ASSERT_EQ(static_cast<std::uint64_t>(call.op), n % kReduceOps);
  }
  writer.join();
  EXPECT_EQ(board.read().call.sequence, 200000U);
}

}  // namespace
}  // namespace coll
