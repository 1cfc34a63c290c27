// SPDX-License-Identifier: Apache-2.0
// Tagged messages that are looked for, cancelled, refused, or never come.
#include <collectives/collectives.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "c_api/api_ranks.hpp"
#include "c_api/messages/tagged_calls.hpp"
#include "communicator/rank_processes.hpp"

namespace collectives::testing {
namespace {

bool refused(coll_status_t status, const char* word) {
  return !wrong(0, "call", status, COLL_INVALID_ARGUMENT, word);
}

TEST(TaggedLimits, BadArgumentsAreRefused) {
  run_ranks(2, [](coll_comm_t comm, int) {
    Values data(4);
    coll_message_t bare = {};
    coll_message_t message = COLL_MESSAGE_INIT;
    EXPECT_TRUE(refused(send_tagged(data, 1, -1, comm), "tag -1 is negative"));
    EXPECT_TRUE(refused(recv_tagged(data, 1, -2, comm), "tag -2 is negative"));
    EXPECT_TRUE(refused(send_tagged(data, COLL_ANY_SOURCE, 0, comm), "peer -1"));
    EXPECT_TRUE(refused(recv_tagged(data, 2, 0, comm), "peer 2"));
    EXPECT_TRUE(refused(recv_tagged(data, 1, 0, comm, &bare), "COLL_MESSAGE_INIT"));
    EXPECT_TRUE(refused(coll_recv_tagged(nullptr, 4, COLL_INT64, 1, 0, nullptr, comm, nullptr),
                        "recv is null"));
    EXPECT_TRUE(refused(recv_tagged(data, 1, 0, nullptr), "comm"));
    EXPECT_TRUE(refused(coll_probe(2, 0, 0, &message, comm), "peer 2"));
    EXPECT_TRUE(refused(coll_probe(1, 0, 0, nullptr, comm), "message"));
    EXPECT_TRUE(refused(coll_probe(1, 0, 0, &message, nullptr), "comm"));
    coll_call_t call = tagged(COLL_BROADCAST, nullptr, data.data(), 4, 0, 0);
    coll_work_t work = nullptr;
    EXPECT_TRUE(refused(coll_start(&call, comm, nullptr, &work), "has no tag"));
    EXPECT_TRUE(refused(coll_work_cancel(nullptr), "work"));
    EXPECT_TRUE(ok(coll_comm_status(comm, nullptr)));
  });
}

TEST(TaggedLimits, AProbeSeesAndLeaves) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    if (rank == 0) {
      EXPECT_TRUE(ok(send_tagged(Values(30, 1), 1, 4, comm)));
      EXPECT_TRUE(ok(send_tagged(Values(10, 2), 1, 6, comm)));
      return;
    }
    coll_message_t message = COLL_MESSAGE_INIT;
    EXPECT_EQ(coll_probe(0, 5, 0, &message, comm), COLL_IN_PROGRESS);
    for (int look = 0; look < 2; ++look) {
      ASSERT_TRUE(ok(coll_probe(COLL_ANY_SOURCE, COLL_ANY_TAG, -1, &message, comm)));
      EXPECT_EQ(message.source, 0);
      EXPECT_EQ(message.tag, 4);
      EXPECT_EQ(message.count, 30U);
    }
    EXPECT_EQ(coll_probe(0, 5, 0.01, &message, comm), COLL_IN_PROGRESS);
    Values got(message.count);
    EXPECT_TRUE(ok(recv_tagged(got, message.source, message.tag, comm)));
    EXPECT_EQ(got, Values(30, 1));
    ASSERT_TRUE(ok(coll_probe(0, 6, 20, &message, comm)));
    EXPECT_EQ(message.count, 10U);
    got.resize(10);
    EXPECT_TRUE(ok(recv_tagged(got, 0, 6, comm)));
  });
}

/// Looks that never wait find the message too, over either transport.
TEST(TaggedLimits, AProbeThatIsAskedAgainAndAgainFindsIt) {
  for (const char* transports : {"shm", "tcp"}) {
    coll_config_t config = config_with();
    config.transports = transports;
    run_ranks(
        2,
        [](coll_comm_t comm, int rank) {
          if (rank == 0) {
            EXPECT_TRUE(ok(send_tagged(Values(3, 1), 1, 4, comm)));
            return;
          }
          coll_message_t message = COLL_MESSAGE_INIT;
          coll_status_t seen = COLL_IN_PROGRESS;  // the test's own limit ends a hang
          while (seen == COLL_IN_PROGRESS) {
            seen = coll_probe(COLL_ANY_SOURCE, 4, 0, &message, comm);
          }
          EXPECT_TRUE(ok(seen));
          Values got(3);
          EXPECT_TRUE(ok(recv_tagged(got, 0, 4, comm)));
        },
        config);
  }
}

TEST(TaggedLimits, ACancelledRecvTakesNothing) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    Values data(5, rank == 0 ? 3 : -1), unused(5, -1);
    if (rank == 0) {
      EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
      EXPECT_TRUE(ok(send_tagged(data, 1, 1, comm)));
      return;
    }
    coll_work_t first = start_recv(unused, 0, 1, comm);
    coll_work_t second = start_recv(data, 0, 1, comm);
    EXPECT_TRUE(ok(coll_work_cancel(first)));
    EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
    EXPECT_FALSE(wrong(1, "cancelled", finish(first), COLL_ABORTED, "cancelled"));
    EXPECT_TRUE(ok(coll_work_wait(second, -1)));
    EXPECT_EQ(coll_work_cancel(second), COLL_IN_PROGRESS) << "it is over";
    EXPECT_TRUE(ok(finish(second)));
    EXPECT_EQ(data, Values(5, 3));
    EXPECT_EQ(unused, Values(5, -1));
    EXPECT_TRUE(ok(coll_comm_status(comm, nullptr)));
  });
}

/// Whoever drives serves the wish, also where it waits for something else.
TEST(TaggedLimits, CancelledWhileAnotherThreadDrives) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    if (rank == 0) {
      EXPECT_TRUE(ok(send_tagged({}, 1, 2, comm)));  // until the recv with tag 1 is cancelled
      EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
      return;
    }
    Values one(1), none;
    coll_work_t work = start_recv(one, 0, 1, comm);
    std::thread driver([&] { EXPECT_TRUE(ok(coll_barrier(comm, nullptr))); });
    EXPECT_TRUE(ok(coll_work_cancel(work)));
    EXPECT_EQ(finish(work), COLL_ABORTED);
    EXPECT_TRUE(ok(recv_tagged(none, 0, 2, comm)));
    driver.join();
  });
}

TEST(TaggedLimits, CancelledBehindAStreamsOperation) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    coll_stream_t stream = make_stream();
    Values in(2, 1), out(2), never(1), go(1);
    if (rank == 0) {
      EXPECT_TRUE(ok(recv(go, 1, comm)));
    }
    EXPECT_TRUE(ok(all_reduce(in, out, comm, stream)));
    if (rank == 1) {
      coll_work_t work = start_recv(never, 0, 1, comm, stream);
      EXPECT_TRUE(ok(coll_work_cancel(work)));
      EXPECT_EQ(coll_work_test(work), COLL_IN_PROGRESS) << "the operation before it runs";
      EXPECT_TRUE(ok(send(go, 0, comm)));
      EXPECT_EQ(finish(work), COLL_ABORTED);
      EXPECT_EQ(coll_stream_synchronize(stream), COLL_ABORTED);
    }
    EXPECT_TRUE(ok(coll_stream_synchronize(stream)));
    EXPECT_EQ(out, Values(2, 2));
    EXPECT_TRUE(ok(coll_stream_destroy(stream)));
  });
}

TEST(TaggedLimits, OnlyWaitingRecvsAreCancelled) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    Values data(1, 1), other(1);
    coll_work_t work = rank == 0 ? start_send(data, 1, 1, comm) : nullptr;
    if (rank == 0) {
      EXPECT_EQ(coll_work_cancel(work), COLL_IN_PROGRESS);
    }
    EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
    if (rank == 1) {
      EXPECT_TRUE(ok(recv_tagged(other, 0, 1, comm)));
    }
    if (rank == 0) {
      EXPECT_TRUE(ok(finish(work)));
    }
  });
}

/// The same failure on both ranks, and which message did not fit.
void expect_mismatch(std::size_t sent, coll_dtype_t type, const char* words) {
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    Values data(100);
    const coll_status_t status =
        rank == 0 ? coll_send_tagged(data.data(), sent, type, 1, 3, comm, nullptr)
                  : recv_tagged(data, COLL_ANY_SOURCE, 3, comm);
    EXPECT_FALSE(wrong(rank, "message", status, COLL_MISMATCH, words));
    EXPECT_EQ(coll_comm_status(comm, nullptr), COLL_MISMATCH);
  });
}

TEST(TaggedLimits, ATooLongMessageIsAMismatch) {
  expect_mismatch(101, COLL_INT64,
                  "recv_tagged of 100 x int64 from rank 0, tag 3: the message has 101 x int64");
}

TEST(TaggedLimits, AnotherTypeIsAMismatch) {
  expect_mismatch(100, COLL_FLOAT64, "the message has 100 x f64");
}

TEST(TaggedLimits, TheDeadlineSaysWhatWasAwaited) {
  run_ranks(
      2,
      [](coll_comm_t comm, int rank) {
        Values data(3);
        coll_call_t send = tagged(COLL_SEND, data.data(), nullptr, data.size(), 1, 8);
        send.deadline_s = 30;  // the other rank's comes first
        coll_work_t work = rank == 0 ? start(send, comm) : nullptr;
        if (rank == 1) {
          coll_message_t message = COLL_MESSAGE_INIT;
          ASSERT_TRUE(ok(coll_probe(0, 8, -1, &message, comm)));
          const coll_status_t status = recv_tagged(data, COLL_ANY_SOURCE, 7, comm);
          EXPECT_FALSE(wrong(rank, "recv", status, COLL_DEADLINE,
                             "any peer (tag 7; other messages wait: tag 8 from rank 0)"));
        }
        if (rank == 0) {
          EXPECT_EQ(finish(work), COLL_DEADLINE);
        }
      },
      1);
}

TEST(TaggedLimits, AnAbortEndsThem) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    Values data(3);
    coll_work_t work = rank == 0 ? start_send(data, 1, 8, comm) : start_recv(data, 0, 7, comm);
    EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
    if (rank == 0) {
      EXPECT_TRUE(ok(coll_comm_abort(comm)));
    }
    EXPECT_EQ(finish(work), COLL_ABORTED);
    coll_message_t message = COLL_MESSAGE_INIT;
    EXPECT_EQ(coll_probe(1 - rank, 7, -1, &message, comm), COLL_ABORTED);
  });
}

class TaggedPeers : public ::testing::TestWithParam<const char*> {};

TEST_P(TaggedPeers, AKilledRankEndsTheWait) {
  const Meetings meetings;
  const Signal met;  // once for each rank that lives on
  RankProcesses ranks(3, [&](int rank) {
    const coll_comm_t comm = join(meetings.place(0), GetParam(), 3, rank);
    if (comm == nullptr) return 1;
    if (coll_barrier(comm, nullptr) != COLL_SUCCESS) return 2;
    if (rank == 1) {
      met.wait();
      met.wait();
      raise(SIGKILL);
    }
    met.give();
    Values data(1);
    const coll_status_t status = recv_tagged(data, COLL_ANY_SOURCE, 0, comm);
    const bool bad = wrong(rank, "recv", status, COLL_PEER_LOST, "rank 1");
    coll_comm_destroy(comm);
    return bad ? 3 : 0;
  });
  ranks.wait_for(1);
  ranks.expect_all_good();
}

/// What a rank of three does before it leaves: returns its failures. `rank_1_ends` waits until rank
/// 1 is gone.
using Doing =
    std::function<int(int rank, coll_comm_t comm, const std::function<bool()>& rank_1_ends)>;

void expect_good_ranks(const char* transport, const Doing& doing) {
  const Meetings meetings;
  int lives[2];  // open for writing while rank 1 lives
  ASSERT_EQ(pipe(lives), 0);
  RankProcesses ranks(3, [&](int rank) {
    if (rank != 1) close(lives[1]);
    const coll_comm_t comm = join(meetings.place(0), transport, 3, rank);
    if (comm == nullptr) return 1;
    int failures = doing(rank, comm, [&] {
      char byte = 0;
      return read(lives[0], &byte, 1) == 0;
    });
    if (wrong(rank, "leave", coll_comm_destroy(comm), COLL_SUCCESS)) ++failures;
    return failures;
  });
  close(lives[1]);
  ranks.expect_all_good();
  close(lives[0]);
}

/// Those that are left may still send.
TEST_P(TaggedPeers, ARankThatHasLeftIsNoFailure) {
  expect_good_ranks(GetParam(), [](int rank, coll_comm_t comm, const auto& rank_1_ends) {
    Values data(1, rank);
    int failures = 0;
    if (rank == 0) {
      for (int i = 0; i < 2; ++i) {
        coll_message_t message = COLL_MESSAGE_INIT;
        const coll_status_t status =
            recv_tagged(data, COLL_ANY_SOURCE, COLL_ANY_TAG, comm, &message);
        if (wrong(rank, "recv", status, COLL_SUCCESS) || message.source != i + 1) ++failures;
      }
    } else {
      if (rank == 2 && !rank_1_ends()) ++failures;
      if (wrong(rank, "send", send_tagged(data, 0, rank, comm), COLL_SUCCESS)) ++failures;
    }
    return failures;
  });
}

/// Nor is one that nothing was ever received from.
TEST_P(TaggedPeers, ARankThatLeftBeforeIsNoFailure) {
  expect_good_ranks(GetParam(), [](int rank, coll_comm_t comm, const auto& rank_1_ends) {
    if (rank == 1) return 0;
    Values data(1, rank);
    int failures = rank_1_ends() ? 0 : 1;
    // Over shared memory the higher rank calls the lower one.
    const coll_status_t status =
        rank == 2 ? recv_tagged(data, COLL_ANY_SOURCE, 5, comm) : send_tagged(data, 2, 5, comm);
    if (wrong(rank, rank == 2 ? "recv" : "send", status, COLL_SUCCESS)) ++failures;
    return failures;
  });
}

/// Where all others have left, the receive ends at once.
TEST_P(TaggedPeers, NobodyIsLeftToSend) {
  expect_good_ranks(GetParam(), [](int rank, coll_comm_t comm, const auto& rank_1_ends) {
    if (rank != 2) return 0;
    Values data(1);
    if (!rank_1_ends()) return 1;
    const coll_status_t status = recv_tagged(data, COLL_ANY_SOURCE, 5, comm);
    return status == COLL_UNREACHABLE || status == COLL_PEER_LOST ? 0 : 2;
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, TaggedPeers, ::testing::Values("shm", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace collectives::testing
