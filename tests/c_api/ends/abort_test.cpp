// SPDX-License-Identifier: Apache-2.0
// How soon an abort ends what threads wait for, on the rank that aborts and on others.
#include <collectives/collectives.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
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
constexpr std::chrono::seconds kSoon{1};

/// When rank 0 called abort, on the clock that all processes of the machine share.
class AbortTime {
 public:
  void set() { at_ = steady_clock::now().time_since_epoch().count(); }
  /// Since then.
  [[nodiscard]] steady_clock::duration passed() const {
    return steady_clock::now().time_since_epoch() - steady_clock::duration(at_);
  }

 private:
  std::atomic<steady_clock::rep> at_{0};
};

/// Ranks 0 and 1 each wait in a blocking call, for a work and for a stream, in a thread each. Rank
/// 2 does its part of none of them. Once all wait, rank 0 aborts.
void wait_and_abort(coll_comm_t comm, int rank, AbortTime& abort) {
  const auto ends_soon = [&abort](coll_status_t status, const char* what) {
    EXPECT_LT(abort.passed(), kSoon) << what;
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
    EXPECT_LT(abort.passed(), kSoon) << "the abort itself";
  }
  for (std::thread& thread : waiting) thread.join();
  EXPECT_TRUE(ok(coll_stream_destroy(stream)));
  EXPECT_TRUE(ok(coll_work_free(work)));
}

TEST(AbortTimes, ThreadsThatWaitReturnWithinASecond) {
  for (const char* transports : {"shm", "tcp"}) {
    AbortTime abort;
    coll_config_t config = config_with(60, 60);
    config.transports = transports;
    run_ranks(
        kRanks, [&](coll_comm_t comm, int rank) { wait_and_abort(comm, rank, abort); }, config);
  }
}

TEST(AbortTimes, ProcessesThatWaitReturnWithinASecond) {
  for (const char* transports : {"shm", "tcp"}) {
    void* shared =
        mmap(nullptr, sizeof(AbortTime), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
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
    munmap(shared, sizeof(AbortTime));
  }
}

}  // namespace
}  // namespace collectives::testing
