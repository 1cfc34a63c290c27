// SPDX-License-Identifier: Apache-2.0
// How soon an abort ends what threads wait for, on the rank that aborts and on others.
#include <collectives/collectives.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <new>
#include <thread>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "communicator/rank_processes.hpp"

namespace collectives::testing {
namespace {

using std::chrono::steady_clock;

constexpr int kRanks = 3;
constexpr int kTag = 5;
#ifdef TRY_LESS  // a sanitizer and an emulator take many times as long
constexpr double kSoon_s = 5;
#else
constexpr double kSoon_s = 1;
#endif
constexpr int kTries = 3;  ///< on a machine that is busy a thread may come too late

/// When rank 0 called abort, and how late threads returned, on the clock that all processes of the
/// machine share.
class AbortTime {
 public:
  void set() { at_ = now(); }
  /// Something ends now.
  void note_end(const char* what) {
    const double passed_s =
        std::chrono::duration<double>(steady_clock::duration(now() - at_)).count();
    if (passed_s >= kSoon_s) {
      late_ = true;
      std::cerr << what << " ended " << passed_s << " s after the abort\n";
    }
  }
  [[nodiscard]] bool any_was_late() const { return late_; }

 private:
  static steady_clock::rep now() { return steady_clock::now().time_since_epoch().count(); }
  std::atomic<steady_clock::rep> at_{0};
  std::atomic<bool> late_{false};
};

/// Ranks 0 and 1 each wait in a blocking call, for a work and for a stream, in a thread each. Rank
/// 2 does its part of none of them. Once all wait, rank 0 aborts.
void wait_and_abort(coll_comm_t comm, int rank, AbortTime& abort) {
  const auto ends_soon = [&abort](coll_status_t status, const char* what) {
    abort.note_end(what);
    EXPECT_EQ(status, COLL_ABORTED) << what << ": " << coll_last_error();
  };
  const Values one(1000, 1);
  Values lone(one.size()), streamed(one.size()), sum(one.size());
  if (rank == 2) {
    coll_message_t message = COLL_MESSAGE_INIT;
    for (int peer = 0; peer < 2; ++peer) {  // it is inside its blocking call
      EXPECT_TRUE(ok(coll_probe(peer, kTag, -1, &message, comm)));
    }
    Values go{1};
    EXPECT_TRUE(ok(send(go, 0, comm)));
    return ends_soon(coll_probe(1, kTag + 1, -1, &message, comm), "probe");
  }
  coll_call_t call = asked(COLL_ALL_REDUCE, one.size());
  call.send = one.data();
  call.recv = lone.data();
  coll_work_t work = start(call, comm);
  coll_stream_t stream = make_stream();
  EXPECT_TRUE(ok(all_reduce(one, streamed, comm, stream)));
  std::vector<std::thread> waiting;
  waiting.emplace_back([&] {
    EXPECT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(coll_send_tagged(one.data(), one.size(), COLL_INT64, 2, kTag, comm, nullptr)));
    EXPECT_TRUE(ok(all_reduce(one, sum, comm)));
    ends_soon(coll_group_end(), "blocking call");
  });
  waiting.emplace_back([&] { ends_soon(coll_work_wait(work, -1), "work"); });
  waiting.emplace_back([&] { ends_soon(coll_stream_synchronize(stream), "stream"); });
  if (rank == 0) {
    Values go{0};
    EXPECT_TRUE(ok(recv(go, 2, comm)));
    abort.set();
    EXPECT_TRUE(ok(coll_comm_abort(comm)));
    abort.note_end("the abort itself");
  }
  for (std::thread& thread : waiting) thread.join();
  EXPECT_TRUE(ok(coll_stream_destroy(stream)));
  EXPECT_TRUE(ok(coll_work_free(work)));
}

/// Does any try end with all threads in time?
template <class Try>
bool ends_in_time(Try one_try) {
  for (int i = 0; i < kTries; ++i) {
    if (one_try() || ::testing::Test::HasFailure()) return true;  // a failure has been reported
  }
  return false;
}

bool threads_return_soon(const char* transports) {
  AbortTime abort;
  coll_config_t config = config_with(60, 60);
  config.transports = transports;
  run_ranks(
      kRanks, [&](coll_comm_t comm, int rank) { wait_and_abort(comm, rank, abort); }, config);
  return !abort.any_was_late();
}

bool processes_return_soon(const char* transports) {
  void* shared =
      mmap(nullptr, sizeof(AbortTime), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) std::abort();
  auto& abort = *new (shared) AbortTime;
  const Meetings meetings;
  RankProcesses ranks(kRanks, [&](int rank) {
    coll_comm_t comm = join(meetings.place(0), transports, kRanks, rank, 60);
    if (comm == nullptr) return EXIT_FAILURE;
    wait_and_abort(comm, rank, abort);
    EXPECT_TRUE(ok(coll_comm_destroy(comm)));
    return ::testing::Test::HasFailure() ? EXIT_FAILURE : EXIT_SUCCESS;
  });
  ranks.expect_all_good();
  const bool soon = !abort.any_was_late();
  munmap(shared, sizeof(AbortTime));
  return soon;
}

TEST(AbortTimes, ThreadsThatWaitReturnSoon) {
  for (const char* transports : {"shm", "tcp"}) {
    EXPECT_TRUE(ends_in_time([&] { return threads_return_soon(transports); })) << transports;
  }
}

TEST(AbortTimes, ProcessesThatWaitReturnSoon) {
  for (const char* transports : {"shm", "tcp"}) {
    EXPECT_TRUE(ends_in_time([&] { return processes_return_soon(transports); })) << transports;
  }
}

}  // namespace
}  // namespace collectives::testing
