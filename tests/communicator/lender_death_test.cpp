// SPDX-License-Identifier: Apache-2.0
// Ranks that are killed while others read their memory, or while theirs is lent to them.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <collectives/collectives.hpp>
#include <csignal>
#include <iostream>
#include <new>
#include <random>
#include <string>

#include "rank_processes.hpp"
#include "test_memory.hpp"
#include "test_seed.hpp"

namespace {

using collectives::testing::join;
using collectives::testing::Kind;
using collectives::testing::Meetings;
using collectives::testing::RankProcesses;
using collectives::testing::TestMemory;
using collectives::testing::wrong;
using Clock = std::chrono::steady_clock;

/// What the ranks have done so far, in memory that they and the test share.
class Ticks {
 public:
  Ticks() {
    void* place = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) std::abort();
    ticks_ = new (place) std::atomic<int>(0);
  }
  Ticks(const Ticks&) = delete;
  Ticks& operator=(const Ticks&) = delete;
  ~Ticks() { munmap(ticks_, 4096); }
  void count() { ++*ticks_; }
  [[nodiscard]] bool reach(int goal) const {
    const auto end = Clock::now() + std::chrono::seconds(30);
    while (*ticks_ < goal) {
      if (Clock::now() > end) return false;
    }
    return true;
  }

 private:
  std::atomic<int>* ticks_;
};

constexpr int kRanks = 3;
constexpr size_t kOutput = 8;  ///< in inputs: long enough for ranks to write into it

struct Repeated {
  const char* name;
  coll_status_t (*call)(int rank, const float* in, float* out, size_t count, coll_comm_t comm);
  Kind kind;  ///< of the buffers
  int ranks = kRanks;
};

coll_status_t all_reduce(int /*rank*/, const float* in, float* out, size_t count,
                         coll_comm_t comm) {
  return coll_all_reduce(in, out, count, COLL_FLOAT32, COLL_SUM, comm, nullptr);
}
/// The ranks write into each other's input once they have read it.
coll_status_t in_place(int /*rank*/, const float* /*in*/, float* out, size_t count,
                       coll_comm_t comm) {
  return coll_all_reduce(out, out, kOutput * count, COLL_FLOAT32, COLL_SUM, comm, nullptr);
}
coll_status_t all_gather(int /*rank*/, const float* in, float* out, size_t count,
                         coll_comm_t comm) {
  return coll_all_gather(in, out, count, COLL_FLOAT32, comm, nullptr);
}
coll_status_t broadcast(int /*rank*/, const float* in, float* out, size_t count, coll_comm_t comm) {
  return coll_broadcast(in, out, count, COLL_FLOAT32, 1, comm, nullptr);
}
/// From 0 to 1 to 2 to 0.
coll_status_t relay(int rank, const float* in, float* out, size_t count, coll_comm_t comm) {
  const auto send = [&] {
    return coll_send(in, count, COLL_FLOAT32, (rank + 1) % kRanks, comm, nullptr);
  };
  const auto recv = [&] {
    return coll_recv(out, count, COLL_FLOAT32, (rank + kRanks - 1) % kRanks, comm, nullptr);
  };
  const coll_status_t status = rank == 0 ? send() : recv();
  if (status != COLL_SUCCESS) return status;
  return rank == 0 ? recv() : send();
}

class LenderDeath : public ::testing::TestWithParam<Repeated> {};

/// Of this test's buffers the other ranks are reading, or have ours lent, nearly all the time.
TEST_P(LenderDeath, AllOthersLearnOfItSoon) {
  const Repeated& repeated = GetParam();
  const Meetings meetings;
  std::mt19937_64 random(coll::test::test_seed());
  for (int round = 0; round < 4; ++round) {
    constexpr size_t kCount = 32 << 10;
    const int victim = static_cast<int>(random() % static_cast<unsigned>(repeated.ranks));
    const std::string who = "rank " + std::to_string(victim);
    Ticks ticks;
    RankProcesses ranks(repeated.ranks, [&](int rank) {
      const coll_comm_t comm = join(meetings.place(round), "shm", repeated.ranks, rank);
      if (comm == nullptr) return 1;
      const TestMemory in(kCount * sizeof(float), repeated.kind);
      const TestMemory out(kOutput * kCount * sizeof(float), repeated.kind);
      coll_status_t status = COLL_SUCCESS;
      while ((status = repeated.call(rank, in.as<float>(), out.as<float>(), kCount, comm)) ==
             COLL_SUCCESS)
        ticks.count();
      const bool bad = wrong(rank, "repeated call", status, COLL_PEER_LOST, who.c_str());
      return bad || wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS) ? 1 : 0;
    });
    ASSERT_TRUE(ticks.reach(20 + static_cast<int>(random() % 100)));
    const auto moment = Clock::now() + std::chrono::microseconds(random() % 300);
    while (Clock::now() < moment) {
    }
    const auto killed = Clock::now();
    ASSERT_EQ(kill(ranks.pid(victim), SIGKILL), 0);
    EXPECT_TRUE(WIFSIGNALED(ranks.wait_for(victim)));
    ranks.expect_all_good();
    EXPECT_LT(Clock::now() - killed, std::chrono::seconds(15));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Buffers, LenderDeath,
    ::testing::Values(Repeated{"SharedAllReduce", all_reduce, Kind::allocated},
                      Repeated{"SharedInPlace", in_place, Kind::allocated, 2},
                      Repeated{"SharedInPlaceOfThree", in_place, Kind::allocated},
                      Repeated{"SharedAllGather", all_gather, Kind::allocated},
                      Repeated{"SharedRelay", relay, Kind::allocated},
                      Repeated{"RegisteredAllReduce", all_reduce, Kind::registered},
                      Repeated{"RegisteredAllGather", all_gather, Kind::registered},
                      Repeated{"RegisteredRelay", relay, Kind::registered},
                      Repeated{"PrivateAllGather", all_gather, Kind::heap},
                      Repeated{"PrivateBroadcast", broadcast, Kind::heap},
                      Repeated{"PrivateRelay", relay, Kind::heap}),
    [](const auto& which) { return which.param.name; });

}  // namespace
