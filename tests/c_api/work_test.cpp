// SPDX-License-Identifier: Apache-2.0
// Operations with handles: in flight together, waited for in any order, with deadlines of their
// own.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <collectives/collectives.hpp>
#include <cstring>
#include <functional>
#include <latch>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "api_ranks.hpp"
#include "test_seed.hpp"

namespace {

using collectives::testing::run_ranks;

coll_call_t all_reduce(const std::vector<std::int64_t>& in, std::vector<std::int64_t>& out) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_REDUCE;
  call.send = in.data();
  call.recv = out.data();
  call.count = in.size();
  call.type = COLL_INT64;
  return call;
}

coll_work_t must_start(const coll_call_t& call, coll_comm_t comm, coll_stream_t stream = nullptr) {
  coll_work_t work = nullptr;
  EXPECT_EQ(coll_start(&call, comm, stream, &work), COLL_SUCCESS) << coll_last_error();
  return work;
}

TEST(Work, ManyInFlightEndInAnyOrder) {
  const std::uint64_t seed = coll::test::test_seed();
  run_ranks(3, [seed](coll_comm_t comm, int rank) {
    std::mt19937_64 common(seed), own(seed + 1 + static_cast<std::uint64_t>(rank));
    constexpr std::size_t kCalls = 40;
    std::vector<std::vector<std::int64_t>> in(kCalls), out(kCalls);
    std::vector<std::pair<std::size_t, coll_work_t>> works;
    for (std::size_t i = 0; i < kCalls; ++i) {
      in[i].assign(common() % 20'000, rank + static_cast<int>(i));
      out[i].resize(in[i].size());
      works.emplace_back(i, must_start(all_reduce(in[i], out[i]), comm));
    }
    std::ranges::shuffle(works, own);
    for (const auto& [i, work] : works) {
      ASSERT_EQ(coll_work_wait(work, -1), COLL_SUCCESS) << coll_last_error();
      ASSERT_EQ(coll_work_test(work), COLL_SUCCESS) << "it stays ended";
      const std::vector<std::int64_t> sums(in[i].size(), 3 + 3 * static_cast<std::int64_t>(i));
      ASSERT_EQ(out[i], sums) << "call " << i;
      EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
    }
  });
}

TEST(Work, RunsWhileNobodyWaits) {
  run_ranks(2, [](coll_comm_t comm, int) {
    const std::vector<std::int64_t> in(100'000, 1);
    std::vector<std::int64_t> out(in.size());
    coll_work_t work = must_start(all_reduce(in, out), comm);
    coll_status_t status = COLL_IN_PROGRESS;  // the test's own limit ends a hang
    while ((status = coll_work_test(work)) == COLL_IN_PROGRESS) std::this_thread::yield();
    EXPECT_EQ(status, COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(out, std::vector<std::int64_t>(in.size(), 2));
    EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
  });
}

/// Ranks that wait for the others' end too; a work that has ended is left alone.
TEST(Work, AbortEndsAllOfTheCommunicator) {
  std::latch started(2);
  run_ranks(3, [&](coll_comm_t comm, int rank) {
    const coll_call_t barrier = COLL_CALL_INIT;
    coll_work_t early = must_start(barrier, comm);
    EXPECT_EQ(coll_work_wait(early, -1), COLL_SUCCESS);
    EXPECT_EQ(coll_work_abort(early), COLL_SUCCESS) << "it has ended: nothing happens";
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS) << coll_last_error();
    if (rank == 2) {  // it never calls what the others are in
      coll_error_info_t info = COLL_ERROR_INFO_INIT;
      while (coll_comm_error_info(comm, &info) == COLL_SUCCESS && info.code == COLL_SUCCESS) {
        std::this_thread::yield();  // the test's own limit ends a hang
      }
      EXPECT_EQ(info.code, COLL_ABORTED);
      EXPECT_EQ(info.rank, 0);
    } else {
      coll_work_t work = must_start(barrier, comm);
      started.arrive_and_wait();  // an aborted communicator would refuse it
      if (rank == 0) {
        EXPECT_EQ(coll_work_abort(work), COLL_SUCCESS) << coll_last_error();
      }
      EXPECT_EQ(coll_work_wait(work, -1), COLL_ABORTED);
      EXPECT_NE(std::string(coll_last_error()).find("rank 0 aborted"), std::string::npos);
      EXPECT_EQ(coll_work_abort(work), COLL_SUCCESS);
      EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
    }
    EXPECT_EQ(coll_work_free(early), COLL_SUCCESS);
  });
  run_ranks(1, [](coll_comm_t comm, int) {
    const coll_call_t barrier = COLL_CALL_INIT;
    EXPECT_EQ(coll_group_start(), COLL_SUCCESS);
    coll_work_t work = must_start(barrier, comm);
    EXPECT_EQ(coll_work_abort(work), COLL_INVALID_USAGE) << "its group has issued nothing";
    EXPECT_EQ(coll_group_end(), COLL_SUCCESS);
    EXPECT_EQ(coll_work_wait(work, -1), COLL_SUCCESS);
    EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
  });
}

/// Also in its own function at the end it has ended.
TEST(Work, AbortInTheFunctionAtItsEndDoesNothing) {
  run_ranks(2, [](coll_comm_t comm, int) {
    const std::vector<std::int64_t> in(1000, 1);
    std::vector<std::int64_t> out(in.size());
    coll_work_t work = must_start(all_reduce(in, out), comm);
    const auto abort = [](void* own, coll_status_t) {
      EXPECT_EQ(coll_work_abort(static_cast<coll_work_t>(own)), COLL_SUCCESS);
    };
    EXPECT_EQ(coll_work_on_end(work, abort, work), COLL_SUCCESS);
    EXPECT_EQ(coll_work_wait(work, -1), COLL_SUCCESS);
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
  });
}

TEST(Work, RunBlocksWithADeadlineOfItsOwnAndJoinsGroups) {
  std::atomic<bool> over{false};
  run_ranks(
      2,
      [&](coll_comm_t comm, int rank) {
        const std::vector<std::int64_t> in(1000, rank + 1);
        std::vector<std::int64_t> out(in.size()), other(in.size());
        const coll_call_t call = all_reduce(in, out), beside = all_reduce(in, other);
        EXPECT_EQ(coll_run(&call, comm), COLL_SUCCESS) << coll_last_error();
        EXPECT_EQ(out, std::vector<std::int64_t>(in.size(), 3));
        out.assign(in.size(), 0);
        EXPECT_EQ(coll_group_start(), COLL_SUCCESS);
        EXPECT_EQ(coll_run(&call, comm), COLL_SUCCESS);
        EXPECT_EQ(coll_run(&beside, comm), COLL_SUCCESS);
        EXPECT_EQ(out[0], 0) << "collected";
        EXPECT_EQ(coll_group_end(), COLL_SUCCESS) << coll_last_error();
        EXPECT_EQ(out, std::vector<std::int64_t>(in.size(), 3));
        EXPECT_EQ(other, out);
        EXPECT_EQ(coll_run(nullptr, comm), COLL_INVALID_ARGUMENT);
        EXPECT_EQ(coll_run(&call, nullptr), COLL_INVALID_ARGUMENT);
        coll_call_t barrier = COLL_CALL_INIT;
        barrier.deadline_s = 0.1;
        if (rank == 0) {
          EXPECT_EQ(coll_run(&barrier, comm), COLL_DEADLINE);
          over = true;
          over.notify_all();
        } else {
          over.wait(false);  // it does not come, and does not leave either
        }
      },
      0);  // the communicator has none: a call without its own would wait for ever
}

TEST(Work, AWaitMayEndBeforeTheOperation) {
  std::atomic<bool> waited{false};
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    coll_call_t barrier = COLL_CALL_INIT;
    if (rank == 1) waited.wait(false);
    coll_work_t work = must_start(barrier, comm);
    if (rank == 0) {
      EXPECT_EQ(coll_work_test(work), COLL_IN_PROGRESS);
      EXPECT_EQ(coll_work_wait(work, 0), COLL_IN_PROGRESS);
      EXPECT_EQ(coll_work_wait(work, 0.02), COLL_IN_PROGRESS);
      waited = true;
      waited.notify_all();
    }
    EXPECT_EQ(coll_work_wait(work, 1e300), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
  });
}

struct Told {
  std::atomic<int> times{0};
  std::atomic<coll_status_t> status{COLL_IN_PROGRESS};
};

void tell(void* context, coll_status_t status) {
  auto& told = *static_cast<Told*>(context);
  told.status = status;
  ++told.times;
  told.times.notify_all();
}

TEST(Work, TellsItsEndOnce) {
  run_ranks(2, [](coll_comm_t comm, int) {
    const std::vector<std::int64_t> in(1000, 1);
    std::vector<std::int64_t> out(in.size());
    Told told;
    coll_work_t work = must_start(all_reduce(in, out), comm);
    ASSERT_EQ(coll_work_on_end(work, tell, &told), COLL_SUCCESS);
    told.times.wait(0);
    EXPECT_EQ(told.status, COLL_SUCCESS);
    EXPECT_EQ(coll_work_wait(work, -1), COLL_SUCCESS);
    EXPECT_EQ(out.back(), 2);
    EXPECT_EQ(told.times, 1);
    EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);

    work = must_start(all_reduce(in, out), comm);
    ASSERT_EQ(coll_work_wait(work, -1), COLL_SUCCESS);
    ASSERT_EQ(coll_work_on_end(work, tell, &told), COLL_SUCCESS) << "after its end: at once";
    EXPECT_EQ(told.times, 2);
    EXPECT_EQ(coll_work_on_end(work, tell, &told), COLL_INVALID_USAGE);
    EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
  });
}

struct Again {
  coll_call_t call;
  coll_comm_t comm;
  coll_stream_t stream;
  std::atomic<coll_status_t> started{COLL_IN_PROGRESS};
};

void start_again(void* context, coll_status_t /*status*/) {
  auto& again = *static_cast<Again*>(context);
  again.started = coll_start(&again.call, again.comm, again.stream, nullptr);
  static_cast<void>(coll_stream_query(again.stream));
  again.started.notify_all();
}

/// Whoever moves the operation calls the function: also a thread that enqueues, or waits.
TEST(Work, WhatItTellsMayIssueMore) {
  run_ranks(2, [](coll_comm_t comm, int) {
    coll_stream_t stream = nullptr;
    ASSERT_EQ(coll_stream_create(&stream), COLL_SUCCESS);
    std::vector<std::int64_t> value(100, 1), other(100, 1), sum(100);
    for (int i = 0; i < 20; ++i) {
      Again again{all_reduce(value, value), comm, stream};
      coll_work_t work = must_start(all_reduce(other, sum), comm, stream);
      ASSERT_EQ(coll_work_on_end(work, start_again, &again), COLL_SUCCESS);
      again.started.wait(COLL_IN_PROGRESS);
      ASSERT_EQ(again.started, COLL_SUCCESS);
      ASSERT_EQ(coll_stream_synchronize(stream), COLL_SUCCESS) << coll_last_error();
      ASSERT_EQ(value.back(), std::int64_t{2} << i);
      EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
    }
    EXPECT_EQ(coll_stream_destroy(stream), COLL_SUCCESS);
  });
}

TEST(Work, OnAStreamComesInItsOrder) {
  run_ranks(2, [](coll_comm_t comm, int) {
    coll_stream_t stream = nullptr;
    ASSERT_EQ(coll_stream_create(&stream), COLL_SUCCESS);
    std::vector<std::int64_t> value(5000, 1);
    coll_work_t last = nullptr;
    for (int i = 0; i < 10; ++i) {  // each doubles what the one before left
      coll_work_free(last);         // while it may run; null at first
      last = must_start(all_reduce(value, value), comm, stream);
    }
    EXPECT_EQ(coll_work_wait(last, -1), COLL_SUCCESS) << coll_last_error();
    EXPECT_EQ(value, std::vector<std::int64_t>(value.size(), 1024));
    EXPECT_EQ(coll_work_free(last), COLL_SUCCESS);
    const coll_call_t call = all_reduce(value, value);
    EXPECT_EQ(coll_start(&call, comm, stream, nullptr), COLL_SUCCESS);
    EXPECT_EQ(coll_stream_synchronize(stream), COLL_SUCCESS);
    EXPECT_EQ(value.back(), 2048);
    EXPECT_EQ(coll_stream_destroy(stream), COLL_SUCCESS);
  });
}

TEST(CppWork, IsAHandleLikeAnyOther) {
  coll_unique_id_t id;
  ASSERT_EQ(coll_get_unique_id(&id), COLL_SUCCESS) << coll_last_error();
  auto comm = collectives::Communicator::join(id, 1, 0);
  ASSERT_TRUE(comm) << comm.error().text;
  const std::vector<std::int64_t> in(10, 7);
  std::vector<std::int64_t> out(in.size());
  auto work = comm->start(all_reduce(in, out));
  ASSERT_TRUE(work) << work.error().text;
  collectives::Work moved = std::move(*work);
  const auto ended = moved.wait();
  ASSERT_TRUE(ended) << ended.error().text;
  EXPECT_TRUE(*ended);
  EXPECT_TRUE(*moved.finished());
  EXPECT_EQ(out, in);
  EXPECT_EQ(work->finished().error().code, COLL_INVALID_ARGUMENT) << "moved from";
}

/// The communicator's deadline is 30 s.
TEST(Work, HasADeadlineOfItsOwn) {
  std::atomic<bool> over{false};
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    if (rank == 1) return over.wait(false);
    const std::vector<std::int64_t> in(10, 1);
    std::vector<std::int64_t> out(in.size());
    coll_call_t call = all_reduce(in, out);
    call.deadline_s = 0.2;
    coll_work_t work = must_start(call, comm);
    EXPECT_EQ(coll_work_wait(work, 20), COLL_DEADLINE);
    EXPECT_NE(std::strstr(coll_last_error(), "rank 0 waited 0.2 s in all_reduce #1"), nullptr)
        << coll_last_error();
    EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
    over = true;
    over.notify_all();
  });
}

TEST(Work, RefusesWhatMakesNoSense) {
  run_ranks(1, [](coll_comm_t comm, int) {
    const auto refused = [](coll_status_t status, const char* word) {
      EXPECT_EQ(status, COLL_INVALID_ARGUMENT);
      EXPECT_NE(std::strstr(coll_last_error(), word), nullptr) << coll_last_error();
    };
    const std::vector<std::int64_t> in(10, 1);
    std::vector<std::int64_t> out(in.size());
    coll_work_t work = nullptr;
    coll_call_t call = all_reduce(in, out);
    refused(coll_start(nullptr, comm, nullptr, &work), "call is null");
    refused(coll_start(&call, nullptr, nullptr, &work), "comm is null");
    refused(coll_start(&call, comm, nullptr, nullptr), "work is null");
    call.recv = nullptr;
    refused(coll_start(&call, comm, nullptr, &work), "recv is null");
    call = all_reduce(in, out);
    call.operation = static_cast<coll_operation_t>(99);
    refused(coll_start(&call, comm, nullptr, &work), "operation 99");
    call = all_reduce(in, out);
    call.deadline_s = std::numeric_limits<double>::quiet_NaN();
    refused(coll_start(&call, comm, nullptr, &work), "deadline_s");
    call = {};
    refused(coll_start(&call, comm, nullptr, &work), "COLL_CALL_INIT");
    EXPECT_EQ(work, nullptr);
    refused(coll_work_test(nullptr), "work is null");
    call = all_reduce(in, out);
    work = must_start(call, comm);
    refused(coll_work_on_end(work, nullptr, nullptr), "done is null");
    refused(coll_work_wait(work, std::numeric_limits<double>::quiet_NaN()), "timeout_s");
    EXPECT_EQ(coll_work_wait(work, -1), COLL_SUCCESS);
    EXPECT_EQ(out, in);
    EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
    EXPECT_EQ(coll_work_free(nullptr), COLL_SUCCESS);
  });
}

}  // namespace
