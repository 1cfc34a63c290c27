// SPDX-License-Identifier: Apache-2.0
// The emulated verbs behave as real ones, by their table alone; and fail where they are told to.
#include "emulation/verbs/emulated_verbs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>

#include "emulation/verbs/emulated_side.hpp"

namespace coll::test {
namespace {

using EmulatedVerbsTest = EmulatedConnection;

TEST_F(EmulatedVerbsTest, WritesArriveInOrder) {
  std::ranges::fill(here.memory, std::byte{7});
  EXPECT_EQ(here.write(there, 1), 0);
  EXPECT_EQ(here.say(2), 0);
  EXPECT_TRUE(std::ranges::equal(here.memory, there.memory));
  const ibv_wc written = there.poll().value();
  EXPECT_EQ(written.wr_id, 100U);
  EXPECT_EQ(written.status, IBV_WC_SUCCESS);
  EXPECT_EQ(written.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(written.imm_data, 1001U);
  EXPECT_EQ(written.wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(written.byte_len, sizeof here.memory);
  EXPECT_EQ(written.qp_num, there.pair->qp_num);
  const ibv_wc said = there.poll().value();
  EXPECT_EQ(said.opcode, IBV_WC_RECV);
  EXPECT_EQ(said.imm_data, 1002U);
  EXPECT_EQ(said.byte_len, 0U);
  EXPECT_FALSE(there.poll());
  // What was not to be signalled has no completion.
  const ibv_wc sent = here.poll().value();
  EXPECT_EQ(sent.wr_id, 1U);
  EXPECT_EQ(sent.opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(sent.qp_num, here.pair->qp_num);
  EXPECT_FALSE(here.poll());
  const EmulatedVerbs::Counts counts = verbs.counts();
  EXPECT_EQ(counts.writes, 1U);
  EXPECT_EQ(counts.sends, 1U);
  EXPECT_EQ(counts.bytes, sizeof here.memory);
  EXPECT_EQ(counts.inline_writes, 0U);
  EXPECT_EQ(counts.post_send_calls, 2U);
  EXPECT_EQ(counts.post_recv_calls, 8U);
  EXPECT_EQ(counts.poll_calls, 5U);
  EXPECT_EQ(verbs.pairs(), (std::vector{here.pair->qp_num, there.pair->qp_num}));
}

TEST_F(EmulatedVerbsTest, GathersPiecesAtAnyPlace) {
  for (std::size_t i = 0; i < sizeof here.memory; ++i) here.memory[i] = static_cast<std::byte>(i);
  ibv_sge pieces[] = {{reinterpret_cast<std::uint64_t>(here.memory + 3), 5, here.region->lkey},
                      {reinterpret_cast<std::uint64_t>(here.memory + 50), 13, here.region->lkey}};
  ibv_sge unused;
  ibv_send_wr work = here.write_to(there, 1, unused, 1);
  work.sg_list = pieces;
  work.num_sge = 2;
  EXPECT_EQ(here.post(work), 0);
  for (std::size_t i = 0; i < 18; ++i)
    EXPECT_EQ(there.memory[1 + i], here.memory[i < 5 ? 3 + i : 45 + i]) << i;
  EXPECT_EQ(there.memory[19], std::byte{0});
  pieces[1].addr += sizeof here.memory;
  EXPECT_EQ(here.post(work), 0);
  EXPECT_EQ(here.poll_all(),
            "1 ok, 1 not its memory, 100 flushed, 101 flushed, 102 flushed, "
            "103 flushed");
}

TEST_F(EmulatedVerbsTest, InlineDataIsCopiedAtOnce) {
  verbs.hold(1);
  ibv_sge piece;
  ibv_send_wr work = here.write_to(there, 1, piece, sizeof here.memory - 8);
  work.send_flags |= IBV_SEND_INLINE;
  piece.lkey = 0;  // is not looked at
  here.memory[255] = std::byte{1};
  EXPECT_EQ(here.post(work), 0);
  here.memory[255] = std::byte{2};
  verbs.go_on(1);
  EXPECT_EQ(there.memory[255], std::byte{1});
  EXPECT_EQ(verbs.counts().inline_writes, 1U);
  work = here.write_to(there, 2, piece);
  work.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(here.post(work), EINVAL) << "longer than the pair allows";
}

TEST_F(EmulatedVerbsTest, AStateHasOnlySomeWaysOut) {
  EXPECT_EQ(here.to_init(), EINVAL);
  EXPECT_EQ(here.to_send(), EINVAL);
  EXPECT_EQ(here.to_state(IBV_QPS_RESET), 0);
  EXPECT_EQ(here.receive(1), EINVAL);
  EXPECT_EQ(here.to_receive_from(there), EINVAL);
  EXPECT_EQ(here.to_state(IBV_QPS_INIT), EINVAL) << "without a port and access flags";
  EXPECT_EQ(here.to_init(), 0);
  EXPECT_EQ(here.to_send(), EINVAL);
  EXPECT_EQ(here.say(1), EINVAL);
  EXPECT_EQ(here.to_receive_from(there), 0);
  EXPECT_EQ(here.say(1), EINVAL);
  EXPECT_EQ(here.to_send(), 0);
  EXPECT_EQ(here.attributes().dest_qp_num, there.pair->qp_num);
  EXPECT_EQ(here.poll_all(), "") << "a reset forgets receives";
}

TEST_F(EmulatedVerbsTest, ABrokenPairFlushesAndReceivesNothing) {
  verbs.hold(0);
  EXPECT_EQ(here.say(1), 0);
  EXPECT_EQ(here.write(there, 2), 0);
  EXPECT_EQ(here.to_state(IBV_QPS_ERR), 0);
  verbs.go_on(0);
  EXPECT_EQ(here.say(3), 0);
  EXPECT_EQ(here.receive(104), 0);
  ibv_wc first = here.poll().value();
  EXPECT_EQ(first.wr_id, 1U);
  EXPECT_EQ(first.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(first.qp_num, here.pair->qp_num);
  EXPECT_GT(first.opcode, IBV_WC_DRIVER3) << "it is not valid";
  EXPECT_EQ(here.poll_all(),
            "2 flushed, 100 flushed, 101 flushed, 102 flushed, 103 flushed, "
            "3 flushed, 104 flushed");
  EXPECT_EQ(there.poll_all(), "");
  EXPECT_EQ(there.say(1), 0);
  EXPECT_EQ(there.poll_all().substr(0, 12), "1 unanswered");
  EXPECT_EQ(there.state(), IBV_QPS_ERR);
}

TEST_F(EmulatedVerbsTest, APairCanBeginAnew) {
  for (const EmulatedSide* one : {&here, &there}) {
    EXPECT_EQ(one->to_state(IBV_QPS_ERR), 0);
    EXPECT_EQ(one->to_state(IBV_QPS_RESET), 0);
    EXPECT_EQ(one->to_init(), 0);
    EXPECT_EQ(one->receive(200), 0);
  }
  connect();
  EXPECT_EQ(here.write(there, 1), 0);
  // Completions of its former life are still there.
  EXPECT_EQ(there.poll_all(), "100 flushed, 101 flushed, 102 flushed, 103 flushed, 200 ok");
}

TEST_F(EmulatedVerbsTest, OtherPacketNumbersAreNotAnswered) {
  EXPECT_EQ(here.to_state(IBV_QPS_RESET), 0);
  EXPECT_EQ(here.to_init(), 0);
  EXPECT_EQ(here.to_receive_from(there), 0);
  EXPECT_EQ(here.to_send(EmulatedSide::kFirst + 1), 0);
  EXPECT_EQ(here.write(there, 1), 0);
  EXPECT_EQ(here.poll_all(), "1 unanswered");
  EXPECT_EQ(there.poll_all(), "");
}

TEST_F(EmulatedVerbsTest, PacketNumbersGoRound) {
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(here.write(there, i), 0);
    EXPECT_EQ(here.poll()->status, IBV_WC_SUCCESS);
    EXPECT_EQ(there.poll()->imm_data, 1000 + i);
    EXPECT_EQ(there.receive(i), 0);
  }
  EXPECT_EQ(here.attributes().sq_psn, 4U);
  EXPECT_EQ(there.attributes().rq_psn, 4U);
}

TEST_F(EmulatedVerbsTest, APeerMustHavePostedAReceive) {
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(here.say(i), 0);
  EXPECT_EQ(here.poll_all().substr(0, 11), "4 not ready");
  EXPECT_EQ(there.state(), IBV_QPS_RTS);
}

TEST_F(EmulatedVerbsTest, OrIsWaitedForWhereRetriesHaveNoEnd) {
  EXPECT_EQ(here.to_state(IBV_QPS_RESET), 0);
  EXPECT_EQ(here.to_init(), 0);
  EXPECT_EQ(here.to_receive_from(there), 0);
  EXPECT_EQ(here.to_send(EmulatedSide::kFirst, 7), 0);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(here.say(i), 0);
  EXPECT_EQ(there.poll_all(), "100 ok, 101 ok, 102 ok, 103 ok");
  EXPECT_EQ(there.receive(104), 0);
  EXPECT_EQ(there.poll_all(), "104 ok");
}

TEST_F(EmulatedVerbsTest, AWriteNeedsTheRightKeyAndPlace) {
  ibv_sge piece;
  ibv_send_wr work = here.write_to(there, 1, piece);
  work.wr.rdma.remote_addr += 1;
  EXPECT_EQ(here.post(work), 0);
  EXPECT_EQ(here.poll_all().substr(0, 11), "1 no access");
  EXPECT_EQ(here.state(), IBV_QPS_ERR);
  EXPECT_EQ(there.state(), IBV_QPS_ERR);
  EXPECT_EQ(there.poll_all(), "100 flushed, 101 flushed, 102 flushed, 103 flushed");
}

TEST_F(EmulatedVerbsTest, ALocalKeyIsNoRemoteOne) {
  ibv_sge piece;
  ibv_send_wr work = here.write_to(there, 1, piece);
  work.wr.rdma.rkey = there.region->lkey;
  EXPECT_EQ(here.post(work), 0);
  EXPECT_EQ(here.poll_all().substr(0, 11), "1 no access");
}

TEST_F(EmulatedVerbsTest, AQueueHasRoomOnceACompletionWasPolled) {
  for (std::uint32_t i = 0; i < EmulatedSide::kSends; ++i) {
    EXPECT_EQ(there.receive(i), i < 4 ? 0 : ENOMEM);
    ibv_send_wr fence{};
    fence.opcode = IBV_WR_RDMA_WRITE;
    fence.send_flags = i == 5 ? IBV_SEND_SIGNALED : 0;
    EXPECT_EQ(here.post(fence), 0);
  }
  EXPECT_EQ(here.say(1), ENOMEM);
  EXPECT_EQ(here.poll()->status, IBV_WC_SUCCESS);
  for (std::uint64_t i = 0; i < 6; ++i) EXPECT_EQ(here.say(i), 0);
  EXPECT_EQ(here.say(6), ENOMEM);
  EXPECT_EQ(there.receive(9), ENOMEM);
  EXPECT_EQ(there.poll()->wr_id, 100U);
  EXPECT_EQ(there.receive(9), 0);
}

TEST_F(EmulatedVerbsTest, WorkBehindAFailureIsNotPosted) {
  ibv_sge piece;
  ibv_send_wr works[] = {here.write_to(there, 1, piece), here.write_to(there, 2, piece),
                         here.write_to(there, 3, piece)};
  works[0].next = &works[1];
  works[1].next = &works[2];
  works[1].opcode = IBV_WR_RDMA_READ;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(here.table.post_send(here.pair, works, &bad), EINVAL);
  EXPECT_EQ(bad, &works[1]);
  EXPECT_EQ(there.poll_all(), "100 ok");
}

TEST_F(EmulatedVerbsTest, CompletionsOfADestroyedPairStay) {
  EXPECT_EQ(here.write(there, 1), 0);
  EXPECT_EQ(here.table.destroy_qp(here.pair), 0);
  here.pair = nullptr;
  EXPECT_EQ(here.poll_all(), "1 ok");
  EXPECT_EQ(there.say(2), 0);
  EXPECT_EQ(there.poll_all(), "100 ok, 2 unanswered, 101 flushed, 102 flushed, 103 flushed");
}

TEST_F(EmulatedVerbsTest, AnArmedQueueTellsOnce) {
  const VerbsTable& table = here.table;
  ibv_cq* queue = nullptr;
  void* cookie = nullptr;
  EXPECT_EQ(here.say(1), 0);
  EXPECT_EQ(table.req_notify_cq(there.queue, 0), 0);
  EXPECT_FALSE(is_readable(there.channel->fd)) << "the completion was there before";
  EXPECT_EQ(here.say(2), 0);
  EXPECT_EQ(here.say(3), 0);
  EXPECT_TRUE(is_readable(there.channel->fd));
  EXPECT_EQ(table.get_cq_event(there.channel, &queue, &cookie), 0);
  EXPECT_EQ(queue, there.queue);
  EXPECT_EQ(cookie, &there);
  EXPECT_FALSE(is_readable(there.channel->fd));
  EXPECT_EQ(table.get_cq_event(there.channel, &queue, &cookie), -1);
  EXPECT_EQ(errno, EAGAIN);
  table.ack_cq_events(there.queue, 1);
}

/// Who polls the last word of a write needs no completion, and nothing else between the threads.
TEST_F(EmulatedVerbsTest, TwoThreadsSeeWritesByTheirLastWord) {
  constexpr std::uint64_t kRounds = 200;
  const auto play = [](EmulatedSide& mine, const EmulatedSide& peer, bool begins) {
    // It is sent from the first half, and arrives in the second.
    auto* const out = reinterpret_cast<std::uint64_t*>(mine.memory);
    auto* const in = out + 16;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      const auto send = [&] {
        for (std::size_t i = 0; i < 16; ++i) out[i] = round;
        ibv_sge piece;
        ibv_send_wr work = mine.write_to(peer, round, piece, 128);
        piece.addr -= 128;
        work.opcode = IBV_WR_RDMA_WRITE;
        EXPECT_EQ(mine.post(work), 0);
      };
      if (begins) send();
      while (std::atomic_ref(in[15]).load(std::memory_order_acquire) != round)
        std::this_thread::yield();
      for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(in[i], round);
      EXPECT_EQ(begins ? mine.poll_all() : "", begins ? std::to_string(round) + " ok" : "");
      if (begins) continue;
      send();
      EXPECT_EQ(mine.poll_all(), std::to_string(round) + " ok");
    }
  };
  std::thread other([&] { play(there, here, false); });
  play(here, there, true);
  other.join();
}

}  // namespace
}  // namespace coll::test
