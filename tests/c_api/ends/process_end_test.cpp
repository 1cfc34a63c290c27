// SPDX-License-Identifier: Apache-2.0
// Ranks as processes that end, die or fork without having destroyed their communicators.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <collectives/collectives.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "communicator/rank_processes.hpp"
#include "temporary_folder.hpp"

// A forked child that exits would look for leaks, and wait for ever for an allocator that a thread
// of its parent held at that moment.
// NOLINTNEXTLINE: the sanitizer's name, which it must see
extern "C" [[gnu::visibility("default")]] const char* __asan_default_options() {
  return "detect_leaks=0";
}

namespace {

using collectives::testing::join;
using collectives::testing::kPatience_s;
using collectives::testing::Meetings;
using collectives::testing::RankProcesses;
using collectives::testing::Signal;
using collectives::testing::wrong;

class ProcessEnd : public ::testing::TestWithParam<std::string> {};

TEST_P(ProcessEnd, ExitLeavesInOrder) {
  const Meetings meetings;
  for (int round = 0; round < 20; ++round) {
    RankProcesses ranks(4, [&](int rank) {
      const coll_comm_t comm = join(meetings.place(round), GetParam(), 4, rank);
      if (comm == nullptr) return 1;
      std::vector<float> data(30'000, static_cast<float>(rank));
      for (int i = 0; i < 3; ++i) {
        if (wrong(rank, "broadcast",
                  coll_broadcast(data.data(), data.data(), data.size(), COLL_FLOAT32, round % 4,
                                 comm, nullptr),
                  COLL_SUCCESS)) {
          return 1;
        }
      }
      return data.back() == static_cast<float>(round % 4) ? 0 : 2;
    });
    ranks.expect_all_good();
  }
}

/// Those of later processes find them.
TEST_P(ProcessEnd, ExitLeavesPlans) {
  const Meetings meetings;
  const coll::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/cache/plans";
  RankProcesses ranks(3, [&](int rank) {
    setenv("COLL_PLANS", path.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
    const coll_comm_t comm = join(meetings.place(0), GetParam(), 3, rank);
    if (comm == nullptr) return 1;
    return wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_SUCCESS) ? 1 : 0;
  });
  ranks.expect_all_good();
  std::ifstream file(path);
  std::string head, plan;
  std::getline(file, head);
  std::getline(file, plan);
  EXPECT_EQ(head, "collectives plans 1");
  EXPECT_NE(plan.find(" barrier 0 0 0 0 "), std::string::npos) << plan;
}

TEST_P(ProcessEnd, WhatWasSentBeforeExitArrives) {
  const Meetings meetings;
  const Signal ended;
  for (const int sender : {0, 1}) {
    RankProcesses ranks(2, [&](int rank) {
      const coll_comm_t comm = join(meetings.place(sender), GetParam(), 2, rank);
      if (comm == nullptr) return 1;
      int value = 0;
      for (int i = 1; i <= 2; ++i) {  // the second finds the connection open and waits for nobody
        if (rank == sender) {
          if (wrong(rank, "send", coll_send(&i, 1, COLL_INT32, 1 - rank, comm, nullptr),
                    COLL_SUCCESS)) {
            return 1;
          }
          continue;
        }
        if (i == 2) ended.wait();
        if (wrong(rank, "recv", coll_recv(&value, 1, COLL_INT32, 1 - rank, comm, nullptr),
                  COLL_SUCCESS)) {
          return 1;
        }
      }
      return rank == sender || value == 2 ? 0 : 2;
    });
    EXPECT_EQ(ranks.wait_for(sender), 0);
    ended.give();
    ranks.expect_all_good();
  }
}

TEST_P(ProcessEnd, ToExitWhileAStreamIsInACallIsADeath) {
  const Meetings meetings;
  const Signal ended;
  RankProcesses ranks(2, [&](int rank) {
    const coll_comm_t comm = join(meetings.place(0), GetParam(), 2, rank);
    if (comm == nullptr) return 1;
    if (rank == 1) {
      static coll_stream_t stream = nullptr;  // never destroyed, but no leak
      if (wrong(rank, "stream", coll_stream_create(&stream), COLL_SUCCESS)) return 1;
      return wrong(rank, "barrier", coll_barrier(comm, stream), COLL_SUCCESS) ? 1 : 0;
    }
    ended.wait();
    return wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_PEER_LOST, "is gone") ? 1 : 0;
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ranks.wait_for(1), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
  ended.give();
  ranks.expect_all_good();
}

TEST_P(ProcessEnd, ToBeKilledIsADeath) {
  const Meetings meetings;
  const std::array<Signal, 3> met;  // the first barrier is over on that rank
  RankProcesses ranks(3, [&](int rank) {
    const coll_comm_t comm = join(meetings.place(0), GetParam(), 3, rank);
    if (comm == nullptr) return 1;
    if (wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_SUCCESS)) return 1;
    met[static_cast<std::size_t>(rank)].give();
    if (rank == 1) {
      for (const Signal& signal : met) signal.wait();
      raise(SIGKILL);
    }
    return wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_PEER_LOST, "rank 1") ? 1 : 0;
  });
  EXPECT_TRUE(WIFSIGNALED(ranks.wait_for(1)));
  ranks.expect_all_good();
}

/// Whatever call each rank is in.
TEST_P(ProcessEnd, ADeathStaysInTheSameWordsOnAllRanks) {
  const Meetings meetings;
  const std::array<Signal, 3> met;  // that rank is in its second call
  std::array<int, 2> lines{};
  ASSERT_EQ(pipe(lines.data()), 0);
  RankProcesses ranks(4, [&](int rank) {
    const coll_comm_t comm = join(meetings.place(0), GetParam(), 4, rank);
    if (comm == nullptr) return 1;
    if (wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_SUCCESS)) return 1;
    if (rank == 3) {
      for (const Signal& signal : met) signal.wait();
      raise(SIGKILL);
    }
    // Issued before the death: the call says which it was.
    int value = 0;
    coll_call_t call = COLL_CALL_INIT;
    if (rank == 0) {
      call.operation = COLL_RECV;
      call.recv = &value;
      call.count = 1;
      call.type = COLL_INT32;
      call.root = 3;
    }
    coll_work_t work = nullptr;
    if (wrong(rank, "start", coll_start(&call, comm, nullptr, &work), COLL_SUCCESS)) return 1;
    met[static_cast<std::size_t>(rank)].give();
    const coll_status_t lost = coll_work_wait(work, -1);
    const char* text = nullptr;
    if (wrong(rank, "call", lost, COLL_PEER_LOST, "[in ") ||
        wrong(rank, "status", coll_comm_status(comm, &text), COLL_PEER_LOST, "rank 3")) {
      return 1;
    }
    if (wrong(rank, "free", coll_work_free(work), COLL_SUCCESS)) return 1;
    const std::string line = std::string(text) + "\n";
    return write(lines[1], line.data(), line.size()) > 0 ? 0 : 2;
  });
  EXPECT_TRUE(WIFSIGNALED(ranks.wait_for(3)));
  ranks.expect_all_good();
  close(lines[1]);
  std::string all(65536, '\0');
  all.resize(
      static_cast<std::size_t>(std::max<ssize_t>(read(lines[0], all.data(), all.size()), 0)));
  close(lines[0]);
  const std::string first = all.substr(0, all.find('\n') + 1);
  EXPECT_EQ(all, first + first + first);
}

/// A user's static object that outlives the library's own end, and still holds the communicator.
struct Late {
  coll_comm_t comm = nullptr;
  ~Late() {
    if (comm == nullptr) return;
    const bool bad =
        wrong(-1, "late barrier", coll_barrier(comm, nullptr), COLL_INVALID_USAGE, "exit") ||
        wrong(-1, "late destroy", coll_comm_destroy(comm), COLL_SUCCESS);
    _exit(bad ? 1 : 0);
  }
};

TEST_P(ProcessEnd, ToDestroyAfterTheExitHandlerIsFine) {
  const Meetings meetings;
  RankProcesses ranks(2, [&](int rank) {
    static Late late;
    late.comm = join(meetings.place(0), GetParam(), 2, rank);
    return 3;  // the destructor says how it went
  });
  ranks.expect_all_good();
}

/// Gathers a block of each of two ranks, the lower rank's of 1 element.
bool gathers(coll_comm_t comm, int rank, std::size_t higher) {
  const std::size_t counts[] = {1, higher};
  const std::vector<int> mine(counts[rank], rank + 1);
  std::vector<int> all(1 + higher);
  std::vector<int> expected(1 + higher, 2);
  expected[0] = 1;
  return !wrong(
             rank, "gathering",
             coll_all_gatherv(mine.data(), all.data(), counts, nullptr, COLL_INT32, comm, nullptr),
             COLL_SUCCESS) &&
         all == expected;
}

/// The main thread's own objects are destroyed before the exit handlers run.
TEST_P(ProcessEnd, AnExitHandlerMayStillCallWithUnequalBlocks) {
  const Meetings meetings;
  RankProcesses ranks(2, [&](int rank) {
    static coll_comm_t comm = nullptr;
    static int own = 0;
    own = rank;
    comm = join(meetings.place(0), GetParam(), 2, rank);
    coll_comm_t copy = nullptr;
    if (comm == nullptr ||
        wrong(rank, "copy", coll_comm_duplicate(comm, nullptr, &copy), COLL_SUCCESS))
      return 1;
    // Once the copy is destroyed, nothing else keeps the call's blocks.
    if (!gathers(copy, rank, 3) || wrong(rank, "destroy", coll_comm_destroy(copy), COLL_SUCCESS)) {
      return 1;
    }
    // The handler repeats the last call, then makes another one.
    return std::atexit([] {
      if (!gathers(comm, own, 3) || !gathers(comm, own, 5)) _exit(2);
      if (wrong(own, "destroy", coll_comm_destroy(comm), COLL_SUCCESS)) _exit(3);
    });
  });
  ranks.expect_all_good();
}

TEST_P(ProcessEnd, AChildCannotUseItsParentsCommunicatorAndDoesNotHideItsDeath) {
  const Meetings meetings;
  const std::array<Signal, 3> met;  // the first barrier is over on that rank
  const Signal child_asked;
  const Signal finished;
  RankProcesses ranks(3, [&](int rank) {
    const coll_comm_t comm = join(meetings.place(0), GetParam(), 3, rank);
    if (comm == nullptr) return 1;
    if (wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_SUCCESS)) return 1;
    met[static_cast<std::size_t>(rank)].give();
    if (rank != 1) {
      const coll_status_t status = coll_barrier(comm, nullptr);
      const bool bad = wrong(rank, "barrier", status, COLL_PEER_LOST, "rank 1");
      if (rank == 0) finished.give();
      return bad ? 1 : 0;
    }
    coll_stream_t stream = nullptr;
    coll_event_t event = nullptr;
    if (wrong(rank, "stream", coll_stream_create(&stream), COLL_SUCCESS)) return 1;
    if (wrong(rank, "event", coll_event_create(&event), COLL_SUCCESS)) return 1;
    if (fork() == 0) {
      alarm(kPatience_s);
      const bool bad =
          wrong(rank, "child's barrier", coll_barrier(comm, nullptr), COLL_INVALID_USAGE, "fork") ||
          wrong(rank, "child's status", coll_comm_status(comm, nullptr), COLL_INVALID_USAGE,
                "fork") ||
          wrong(rank, "child's stream", coll_stream_synchronize(stream), COLL_INVALID_USAGE,
                "fork") ||
          wrong(rank, "child's stream", coll_stream_destroy(stream), COLL_INVALID_USAGE, "fork") ||
          wrong(rank, "child's event", coll_event_record(event, stream), COLL_INVALID_USAGE,
                "fork") ||
          wrong(rank, "child's event", coll_event_synchronize(event), COLL_INVALID_USAGE, "fork") ||
          wrong(rank, "child's abort", coll_comm_abort(comm), COLL_INVALID_USAGE, "fork") ||
          wrong(rank, "child's destroy", coll_comm_destroy(comm), COLL_SUCCESS);
      child_asked.give();
      finished.wait();  // the child outlives its parent, and the others must not wait for it
      _exit(bad ? 1 : 0);
    }
    child_asked.wait();
    for (const Signal& signal : met) signal.wait();
    raise(SIGKILL);
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(ranks.wait_for(1)));
  ranks.expect_all_good();
}

/// Where there is no star any more, data connections show it. (Shared memory does not.)
TEST(ProcessEndOverTcp, AChildDoesNotHideItsParentsDeathFromThoseThatTheHubHasLeft) {
  const Meetings meetings;
  const Signal hub_left, child_is_there, finished;
  RankProcesses ranks(3, [&](int rank) {
    const coll_comm_t comm = join(meetings.place(0), "tcp", 3, rank);
    if (comm == nullptr) return 1;
    int value = 0;
    for (const int from : {1, 2}) {  // both connect
      if (rank == 0) break;
      const coll_status_t met = rank == from
                                    ? coll_send(&value, 1, COLL_INT32, 3 - rank, comm, nullptr)
                                    : coll_recv(&value, 1, COLL_INT32, 3 - rank, comm, nullptr);
      if (wrong(rank, "meeting", met, COLL_SUCCESS)) return 1;
    }
    if (wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_SUCCESS)) return 1;
    if (rank == 0) {
      if (wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS)) return 1;
      hub_left.give();
      hub_left.give();
      return 0;
    }
    hub_left.wait();
    if (rank == 2) {
      child_is_there.wait();
      const coll_status_t status = coll_recv(&value, 1, COLL_INT32, 1, comm, nullptr);
      const bool bad = wrong(rank, "recv", status, COLL_PEER_LOST, "rank 1");
      finished.give();
      return bad ? 1 : 0;
    }
    if (fork() == 0) {
      alarm(kPatience_s);
      child_is_there.give();
      finished.wait();  // the child outlives its parent
      _exit(0);
    }
    raise(SIGSTOP);  // killed by the test, which so knows that it has forked
    return 0;
  });
  int status = 0;
  ASSERT_EQ(waitpid(ranks.pid(1), &status, WUNTRACED), ranks.pid(1));
  kill(ranks.pid(1), SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(ranks.wait_for(1)));
  ranks.expect_all_good();
}

TEST_P(ProcessEnd, AChildThatExitsHarmsNobody) {
  const Meetings meetings;
  RankProcesses ranks(2, [&](int rank) {
    static coll_comm_t comm = nullptr;  // never destroyed, but no leak
    comm = join(meetings.place(0), GetParam(), 2, rank);
    if (comm == nullptr) return 1;
    // Now the control thread sleeps. A child of a process in which another thread allocates may
    // find the address sanitizer's allocator locked.
    if (wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_SUCCESS)) return 1;
    const pid_t child = fork();
    if (child == 0) {  // it ends by exit, as its parent later
      coll_comm_t made = nullptr;
      const bool none = coll_comm_duplicate(comm, nullptr, &made) == COLL_INVALID_USAGE &&
                        coll_comm_split(comm, 0, 0, nullptr, &made) == COLL_INVALID_USAGE;
      return none ? 0 : 1;
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0) return 2;
    return wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_SUCCESS) ? 1 : 0;
  });
  ranks.expect_all_good();
}

INSTANTIATE_TEST_SUITE_P(Transports, ProcessEnd, ::testing::Values("shm", "tcp"),
                         [](const auto& which) { return which.param; });

}  // namespace
