// SPDX-License-Identifier: Apache-2.0
// Communicators that one thread destroys while other threads are inside their calls.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"

namespace collectives::testing {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAway{5};

/// Something that happens once, for which other threads wait.
class Happening {
 public:
  void now() {
    happened_ = true;
    happened_.notify_all();
  }
  void wait() const { happened_.wait(false); }
  [[nodiscard]] bool happened() const { return happened_; }

 private:
  std::atomic<bool> happened_{false};
};

coll_comm_t copy_of(coll_comm_t comm) {
  coll_comm_t copy = nullptr;
  EXPECT_TRUE(ok(coll_comm_duplicate(comm, nullptr, &copy)));
  return copy;
}

/// Waits until rank 0 is inside the call that sends this tag.
void see_message(coll_comm_t comm, int tag) {
  coll_message_t message = COLL_MESSAGE_INIT;
  EXPECT_TRUE(ok(coll_probe(0, tag, -1, &message, comm)));
}

coll_status_t send_tagged(const Values& values, int tag, coll_comm_t comm) {
  return coll_send_tagged(values.data(), values.size(), COLL_INT64, 1, tag, comm, nullptr);
}
coll_status_t recv_tagged(Values& values, int tag, coll_comm_t comm) {
  return coll_recv_tagged(values.data(), values.size(), COLL_INT64, 0, tag, nullptr, comm, nullptr);
}

/// A blocking operation and a group that blocks, each in a thread of its own. The one ends while
/// the other still waits.
TEST(Destroy, WaitsForTheCallsOfOtherThreads) {
  struct Round {
    Happening inside, destroying, sent;
    std::atomic<bool> destroyed{false};
  };
  std::vector<Round> rounds(10);
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    for (Round& round : rounds) {
      coll_comm_t copy = copy_of(comm);
      const Values one(1000, 1);
      Values sum(one.size()), first(one.size()), second(one.size());
      if (rank == 1) {
        // Stays away for a while on purpose: rank 0 gets the time to destroy too early.
        const auto expect_inside = [&round](const char* who) {
          const auto until = steady_clock::now() + kAway;
          while (steady_clock::now() < until) {
            ASSERT_FALSE(round.destroyed) << who << " inside";
            std::this_thread::yield();
          }
        };
        see_message(copy, 1);
        see_message(copy, 2);
        round.inside.now();
        round.destroying.wait();
        expect_inside("both threads are");
        EXPECT_TRUE(ok(recv_tagged(first, 1, copy)));
        round.sent.wait();
        expect_inside("the group's thread is");
        EXPECT_TRUE(ok(recv_tagged(second, 2, copy)));
        EXPECT_TRUE(ok(all_reduce(one, sum, copy)));
        EXPECT_EQ(first, one);
        EXPECT_EQ(second, one);
        EXPECT_EQ(sum[0], 2);
        EXPECT_TRUE(ok(coll_comm_destroy(copy)));
        continue;
      }
      std::thread sender([&] {
        EXPECT_TRUE(ok(send_tagged(one, 1, copy)));
        round.sent.now();
      });
      std::thread group([&] {
        EXPECT_TRUE(ok(coll_group_start()));
        EXPECT_TRUE(ok(send_tagged(one, 2, copy)));
        EXPECT_TRUE(ok(all_reduce(one, sum, copy)));
        EXPECT_TRUE(ok(coll_group_end()));
      });
      round.inside.wait();
      round.destroying.now();
      EXPECT_TRUE(ok(coll_comm_destroy(copy)));
      round.destroyed = true;
      sender.join();
      group.join();
      EXPECT_EQ(sum[0], 2);
    }
  });
}

/// Once a rank's operation has ended, the other's has begun; its thread may be on its way out.
TEST(Destroy, MeetsThreadsThatLeaveTheirCalls) {
  using Operation = std::function<coll_status_t(coll_comm_t, int)>;
  const std::vector<Operation> operations{
      [](coll_comm_t comm, int) { return coll_barrier(comm, nullptr); },
      [](coll_comm_t comm, int) {
        Values values(50'000, 1);
        return all_reduce(values, values, comm);
      },
      [](coll_comm_t comm, int rank) {
        Values values(10, 1);
        return rank == 0 ? send(values, 1, comm) : recv(values, 0, comm);
      },
      [](coll_comm_t comm, int rank) {
        Values values(10, 1);
        return rank == 0 ? send_tagged(values, 3, comm) : recv_tagged(values, 3, comm);
      },
      [](coll_comm_t comm, int) {
        EXPECT_TRUE(ok(coll_group_start()));
        EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
        EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
        return coll_group_end();
      }};
  constexpr int kRounds = 20;
  std::vector<Happening> over(operations.size() * kRounds);
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    for (std::size_t i = 0; i < over.size(); ++i) {
      const Operation& operation = operations[i % operations.size()];
      coll_comm_t copy = copy_of(comm);
      const bool repeats = i / operations.size() % 2 == 0;
      if (repeats) {
        EXPECT_TRUE(ok(operation(copy, rank)));
      }
      std::thread other([&] {
        EXPECT_TRUE(ok(operation(copy, rank)));
        if (rank == 1) over[i].now();
      });
      if (rank == 1) {
        other.join();
        EXPECT_TRUE(ok(coll_comm_destroy(copy)));
      } else {
        over[i].wait();
        EXPECT_TRUE(ok(coll_comm_destroy(copy)));
        other.join();
      }
    }
  });
}

/// The call that the abort ends may return before the abort does.
TEST(Destroy, MeetsAThreadThatAborts) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    for (int i = 0; i < 30; ++i) {
      coll_comm_t copy = copy_of(comm);
      std::thread other;
      if (rank == 0) {
        other = std::thread([copy] { EXPECT_TRUE(ok(coll_comm_abort(copy))); });
      }
      // Rank 1 alone waits in it; a rank that has heard of the abort is refused.
      coll_status_t ended = COLL_SUCCESS;
      while (ended == COLL_SUCCESS) {
        ended = rank == 1 ? coll_barrier(copy, nullptr) : coll_comm_status(copy, nullptr);
      }
      EXPECT_EQ(ended, COLL_ABORTED) << coll_last_error();
      EXPECT_TRUE(ok(coll_comm_destroy(copy)));
      if (other.joinable()) other.join();
      EXPECT_TRUE(ok(coll_barrier(comm, nullptr)));
    }
  });
}

/// Who wants to leave at once aborts first.
TEST(Destroy, AfterAnAbortWaitsForThoseWhoLeave) {
  std::vector<Happening> inside(10), gone(inside.size());
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    for (std::size_t i = 0; i < inside.size(); ++i) {
      coll_comm_t copy = copy_of(comm);
      if (rank == 1) {
        see_message(copy, 4);
        inside[i].now();
        gone[i].wait();
        EXPECT_EQ(coll_barrier(copy, nullptr), COLL_ABORTED);
        EXPECT_TRUE(ok(coll_comm_destroy(copy)));
        continue;
      }
      const Values one(1000, 1);
      std::thread other([&] { EXPECT_EQ(send_tagged(one, 4, copy), COLL_ABORTED); });
      inside[i].wait();
      EXPECT_TRUE(ok(coll_comm_abort(copy)));
      EXPECT_TRUE(ok(coll_comm_destroy(copy)));
      gone[i].now();
      other.join();
    }
  });
}

/// They outlive the communicator, and threads wait for them meanwhile.
TEST(Destroy, EndsWhatStreamsAndHandlesHold) {
  Happening destroying;
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    coll_comm_t copy = copy_of(comm);
    coll_stream_t stream = make_stream();
    coll_event_t event = make_event();
    const Values one(1000, 1);
    Values lone(one.size()), early(one.size()), late(one.size());
    coll_call_t call = asked(COLL_ALL_REDUCE, one.size());
    call.send = one.data();
    call.recv = lone.data();
    if (rank == 1) destroying.wait();
    coll_work_t work = start(call, copy);
    EXPECT_TRUE(ok(all_reduce(one, early, copy, stream)));
    EXPECT_TRUE(ok(coll_event_record(event, stream)));
    EXPECT_TRUE(ok(all_reduce(one, late, copy, stream)));
    std::vector<std::thread> waiting;
    waiting.emplace_back([work] { EXPECT_TRUE(ok(coll_work_wait(work, -1))); });
    waiting.emplace_back([stream] { EXPECT_TRUE(ok(coll_stream_synchronize(stream))); });
    waiting.emplace_back([event] { EXPECT_TRUE(ok(coll_event_synchronize(event))); });
    if (rank == 0) destroying.now();
    EXPECT_TRUE(ok(coll_comm_destroy(copy)));
    for (const Values* sum : {&lone, &early, &late}) {
      EXPECT_EQ(*sum, Values(one.size(), 2)) << "it waited for the operations";
    }
    for (std::thread& thread : waiting) thread.join();
    EXPECT_TRUE(ok(coll_work_test(work)));
    EXPECT_TRUE(ok(coll_work_abort(work))) << "it has ended";
    EXPECT_TRUE(ok(coll_event_query(event)));
    EXPECT_TRUE(ok(all_reduce(one, late, comm, stream))) << "of another communicator";
    EXPECT_TRUE(ok(coll_stream_synchronize(stream)));
    EXPECT_TRUE(ok(coll_event_destroy(event)));
    EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    EXPECT_TRUE(ok(coll_work_free(work)));
  });
}

TEST(Destroy, IsRefusedWhileTheOpenGroupHasAnOperationOfIt) {
  run_ranks(1, [](coll_comm_t comm, int) {
    coll_comm_t copy = copy_of(comm);
    EXPECT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(coll_barrier(copy, nullptr)));
    EXPECT_EQ(coll_comm_destroy(copy), COLL_INVALID_USAGE);
    EXPECT_TRUE(ok(coll_group_end()));
    EXPECT_TRUE(ok(coll_comm_destroy(copy)));
  });
}

}  // namespace
}  // namespace collectives::testing
