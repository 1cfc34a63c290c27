// SPDX-License-Identifier: Apache-2.0
// What a group collects, refuses, keeps and lets go.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <collectives/collectives.hpp>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "api_calls.hpp"
#include "api_ranks.hpp"

namespace collectives::testing {
namespace {

TEST(GroupRules, HandlesEndAfterTheGroupIsIssued) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    const Values mine(kLong, rank);
    Values other(kLong);
    coll_call_t call = COLL_CALL_INIT;
    call.type = COLL_INT64;
    call.count = kLong;
    call.root = 1 - rank;
    std::array<coll_work_t, 2> works{};
    ASSERT_TRUE(ok(coll_group_start()));
    call.operation = COLL_SEND;
    call.send = mine.data();
    ASSERT_TRUE(ok(coll_start(&call, comm, nullptr, &works[0])));
    EXPECT_EQ(coll_work_test(works[0]), COLL_IN_PROGRESS);
    EXPECT_EQ(coll_work_wait(works[0], -1), COLL_INVALID_USAGE) << "it would wait for ever";
    call.operation = COLL_RECV;
    call.recv = other.data();
    ASSERT_TRUE(ok(coll_start(&call, comm, nullptr, &works[1])));
    ASSERT_TRUE(ok(coll_group_end()));
    for (coll_work_t work : works) {
      EXPECT_TRUE(ok(coll_work_wait(work, -1)));
      EXPECT_TRUE(ok(coll_work_free(work)));
    }
    EXPECT_EQ(other, Values(kLong, 1 - rank));
  });
}

TEST(GroupRules, EndsOnceForAllItsLevels) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    const Values in(8, rank);
    Values out(8, -1);
    ASSERT_TRUE(ok(coll_group_start()));
    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(all_reduce(in, out, comm)));
    ASSERT_TRUE(ok(coll_group_end()));
    EXPECT_EQ(out, Values(8, -1)) << "only collected";
    ASSERT_TRUE(ok(coll_group_end()));
    EXPECT_EQ(out, Values(8, 1));
    EXPECT_EQ(coll_group_end(), COLL_INVALID_USAGE);
    EXPECT_EQ(coll_group_cancel(), COLL_INVALID_USAGE);
  });
}

TEST(GroupRules, OfNothing) {
  ASSERT_TRUE(ok(coll_group_start()));
  EXPECT_TRUE(ok(coll_group_end()));
}

TEST(GroupRules, IssuesAllOrNothing) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    const Values in(8, rank);
    Values out(8, -1);
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_ALL_REDUCE;
    call.type = COLL_INT64;
    call.send = in.data();
    call.recv = out.data();
    call.count = in.size();
    coll_work_t work = nullptr;
    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(all_reduce(in, out, comm)));
    ASSERT_TRUE(ok(coll_start(&call, comm, nullptr, &work)));
    EXPECT_EQ(coll_send(in.data(), 8, COLL_INT64, 7, comm, nullptr), COLL_INVALID_ARGUMENT);
    EXPECT_EQ(coll_group_end(), COLL_INVALID_ARGUMENT);
    EXPECT_NE(std::string(coll_last_error()).find("peer 7"), std::string::npos)
        << coll_last_error();
    EXPECT_EQ(coll_work_wait(work, -1), COLL_INVALID_ARGUMENT);
    EXPECT_TRUE(ok(coll_work_free(work)));
    EXPECT_EQ(out, Values(8, -1));
    ASSERT_TRUE(ok(all_reduce(in, out, comm))) << "the communicator is as it was";
    EXPECT_EQ(out, Values(8, 1));
  });
}

TEST(GroupRules, CancelledIssuesNothing) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    const Values in(8, rank);
    Values out(8, -1);
    {
      auto group = Group::start();
      ASSERT_TRUE(group.ok());
      EXPECT_TRUE(ok(all_reduce(in, out, comm)));
    }
    EXPECT_EQ(out, Values(8, -1));
    auto group = Group::start();
    ASSERT_TRUE(group.ok());
    EXPECT_TRUE(ok(all_reduce(in, out, comm)));
    EXPECT_TRUE(group->end().ok());
    EXPECT_EQ(out, Values(8, 1));
  });
}

TEST(GroupRules, OwnExchangesNeedBothHalves) {
  run_ranks(1, [](coll_comm_t comm, int) {
    const Values in{1, 2, 3};
    Values out(3), shorter(2);
    EXPECT_EQ(send(in, 0, comm), COLL_INVALID_ARGUMENT);
    EXPECT_NE(std::string(coll_last_error()).find("coll_group_start"), std::string::npos)
        << coll_last_error();
    EXPECT_EQ(recv(out, 0, comm), COLL_INVALID_ARGUMENT);

    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(send(in, 0, comm)));
    EXPECT_EQ(coll_group_end(), COLL_INVALID_USAGE);
    EXPECT_NE(std::string(coll_last_error()).find("no recv"), std::string::npos)
        << coll_last_error();

    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(recv(shorter, 0, comm)));
    EXPECT_TRUE(ok(send(in, 0, comm)));
    EXPECT_EQ(coll_group_end(), COLL_MISMATCH);

    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(coll_send(nullptr, 3, COLL_INT64, 0, comm, nullptr)));
    EXPECT_TRUE(ok(recv(out, 0, comm)));
    EXPECT_EQ(coll_group_end(), COLL_INVALID_ARGUMENT);

    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(send(in, 0, comm)));
    EXPECT_TRUE(
        ok(coll_recv(const_cast<std::int64_t*>(in.data()) + 1, 3, COLL_INT64, 0, comm, nullptr)));
    EXPECT_EQ(coll_group_end(), COLL_INVALID_ARGUMENT) << "they overlap";

    // The n-th send meets the n-th recv, whatever stands between them.
    const Values more{4, 5, 6, 7};
    Values long_out(4);
    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(recv(out, 0, comm)));
    EXPECT_TRUE(ok(recv(long_out, 0, comm)));
    EXPECT_TRUE(ok(coll_send(nullptr, 0, COLL_INT64, 0, comm, nullptr)));
    EXPECT_EQ(coll_group_end(), COLL_MISMATCH);
    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(recv(out, 0, comm)));
    EXPECT_TRUE(ok(send(in, 0, comm)));
    EXPECT_TRUE(ok(send(more, 0, comm)));
    EXPECT_TRUE(ok(recv(long_out, 0, comm)));
    EXPECT_TRUE(ok(coll_recv(nullptr, 0, COLL_INT64, 0, comm, nullptr)));
    EXPECT_TRUE(ok(coll_send(nullptr, 0, COLL_INT64, 0, comm, nullptr)));
    ASSERT_TRUE(ok(coll_group_end()));
    EXPECT_EQ(out, in);
    EXPECT_EQ(long_out, more);
  });
}

TEST(GroupRules, KeepsWhatItNames) {
  run_ranks(1, [](coll_comm_t comm, int) {
    coll_stream_t stream = nullptr;
    ASSERT_TRUE(ok(coll_stream_create(&stream)));
    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(coll_barrier(comm, stream)));
    EXPECT_EQ(coll_comm_destroy(comm), COLL_INVALID_USAGE);
    EXPECT_EQ(coll_stream_destroy(stream), COLL_INVALID_USAGE);
    ASSERT_TRUE(ok(coll_group_end()));
    EXPECT_TRUE(ok(coll_stream_destroy(stream)));
  });
}

TEST(GroupRules, IsRefusedWithAnyOfItsOperations) {
  run_ranks(1, [](coll_comm_t comm, int) {
    const Values in{1};
    Values out{0};
    coll_call_t call{};  // not initialised as the header asks
    coll_work_t work = nullptr;
    const std::vector<std::function<coll_status_t()>> wrong{
        [&] { return all_reduce(in, out, nullptr); },
        [&] { return coll_start(&call, comm, nullptr, &work); },
        [&] { return coll_start(nullptr, comm, nullptr, &work); },
        [&] { return coll_send(in.data(), 1, static_cast<coll_dtype_t>(77), 0, comm, nullptr); },
    };
    for (const auto& each : wrong) {
      ASSERT_TRUE(ok(coll_group_start()));
      EXPECT_TRUE(ok(all_reduce(in, out, comm)));
      EXPECT_EQ(each(), COLL_INVALID_ARGUMENT);
      EXPECT_EQ(coll_group_end(), COLL_INVALID_ARGUMENT);
      EXPECT_EQ(out, Values{0});
    }
  });
}

TEST(GroupRules, EndsWithItsThread) {
  run_ranks(1, [](coll_comm_t comm, int) {
    const Values in{1};
    Values out{0};
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_ALL_REDUCE;
    call.type = COLL_INT64;
    call.send = in.data();
    call.recv = out.data();
    call.count = 1;
    coll_work_t work = nullptr;
    std::thread([&] {
      EXPECT_TRUE(ok(coll_group_start()));
      EXPECT_TRUE(ok(coll_start(&call, comm, nullptr, &work)));
    }).join();
    EXPECT_EQ(coll_work_wait(work, -1), COLL_ABORTED);
    EXPECT_TRUE(ok(coll_work_free(work)));
    EXPECT_EQ(out, Values{0});
  });
}

/// A function that an operation's end calls is no part of the group that its thread has open.
TEST(GroupRules, DoesNotCollectWhatEndsGiveRiseTo) {
  run_ranks(1, [](coll_comm_t comm, int) {
    coll_call_t call = COLL_CALL_INIT;  // a barrier
    coll_work_t work = nullptr;
    ASSERT_TRUE(ok(coll_start(&call, comm, nullptr, &work)));
    ASSERT_TRUE(ok(coll_work_wait(work, -1)));
    ASSERT_TRUE(ok(coll_group_start()));
    coll_status_t inside = COLL_SUCCESS;
    const auto done = [](void* status, coll_status_t) {
      *static_cast<coll_status_t*>(status) = coll_group_end();
    };
    EXPECT_TRUE(ok(coll_work_on_end(work, done, &inside)));
    EXPECT_EQ(inside, COLL_INVALID_USAGE);
    EXPECT_TRUE(ok(coll_group_end())) << "still open";
    EXPECT_TRUE(ok(coll_work_free(work)));
  });
}

TEST(GroupRules, IsNotItsChilds) {
  run_ranks(1, [](coll_comm_t comm, int) {
    const Values in{1};
    Values out{0};
    ASSERT_TRUE(ok(coll_group_start()));
    EXPECT_TRUE(ok(all_reduce(in, out, comm)));
    const pid_t child = fork();
    if (child == 0) _exit(coll_group_end() == COLL_INVALID_USAGE && out == Values{0} ? 0 : 1);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(ok(coll_group_end()));
    EXPECT_EQ(out, in);
  });
}

}  // namespace
}  // namespace collectives::testing
