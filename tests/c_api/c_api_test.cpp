// SPDX-License-Identifier: Apache-2.0
// The library as users link it: bad input, streams, several communicators, disagreement and abort.
#include <gtest/gtest.h>

#include <atomic>
#include <collectives/collectives.hpp>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "api_calls.hpp"
#include "api_ranks.hpp"

namespace {

using collectives::Communicator;
using collectives::testing::asked;
using collectives::testing::run_ranks;

bool last_error_says(const char* word) {
  return std::strstr(coll_last_error(), word) != nullptr;
}

TEST(CApi, RefusesBadArgumentsWithAReasonAndGoesOn) {
  run_ranks(1, [](coll_comm_t comm, int) {
    float in[8] = {1, 2}, out[8] = {};
    const auto refused = [](coll_status_t status, const char* word) {
      EXPECT_EQ(status, COLL_INVALID_ARGUMENT);
      EXPECT_TRUE(last_error_says(word)) << coll_last_error();
    };
    refused(coll_all_reduce(nullptr, out, 2, COLL_FLOAT32, COLL_SUM, comm, nullptr),
            "send is null");
    refused(coll_all_reduce(in, nullptr, 2, COLL_FLOAT32, COLL_SUM, comm, nullptr), "recv is null");
    refused(coll_all_reduce(in, out, 2, COLL_FLOAT32, COLL_SUM, nullptr, nullptr), "comm is null");
    refused(coll_all_reduce(in, out, 2, static_cast<coll_dtype_t>(77), COLL_SUM, comm, nullptr),
            "dtype");
    refused(coll_all_reduce(in, out, 2, static_cast<coll_dtype_t>(256), COLL_SUM, comm, nullptr),
            "dtype");
    refused(coll_all_reduce(in, out, 2, COLL_FLOAT32, static_cast<coll_op_t>(77), comm, nullptr),
            "op");
    refused(coll_all_reduce(in, in + 1, 4, COLL_FLOAT32, COLL_SUM, comm, nullptr), "overlap");
    refused(coll_all_reduce(in, out, SIZE_MAX / 2, COLL_FLOAT32, COLL_SUM, comm, nullptr), "count");
    refused(coll_broadcast(in, out, 2, COLL_FLOAT32, 1, comm, nullptr), "root 1");
    refused(coll_broadcast(in, out, 2, COLL_FLOAT32, -1, comm, nullptr), "root -1");
    refused(coll_send(in, 2, COLL_FLOAT32, 0, comm, nullptr), "itself");
    refused(coll_comm_init_rank(nullptr, 1, nullptr, 0, nullptr), "comm is null");
    coll_comm_t other = nullptr;
    coll_unique_id_t id{};
    refused(coll_comm_init_rank(&other, 2, &id, 2, nullptr), "rank 2 of size 2");
    EXPECT_EQ(coll_all_reduce(in, out, 2, COLL_FLOAT32, COLL_SUM, comm, nullptr), COLL_SUCCESS);
    EXPECT_EQ(out[1], 2.0f);
    // Nothing to move needs no memory.
    EXPECT_EQ(coll_all_reduce(nullptr, nullptr, 0, COLL_FLOAT32, COLL_SUM, comm, nullptr),
              COLL_SUCCESS);
  });
}

TEST(CppFace, WhatHasBeenMovedFromIsRefused) {
  coll_unique_id_t id;
  ASSERT_EQ(coll_get_unique_id(&id), COLL_SUCCESS) << coll_last_error();
  auto joined = Communicator::join(id, 1, 0);
  ASSERT_TRUE(joined) << joined.error().text;
  const Communicator owner = std::move(*joined);
  const float in[2] = {1, 2};
  float out[2] = {};
  const auto done = joined->all_to_all(std::span<const float>(in), std::span<float>(out));
  EXPECT_EQ(done.error().code, COLL_INVALID_ARGUMENT);
  EXPECT_NE(done.error().text.find("comm is null"), std::string::npos) << done.error().text;
}

TEST(CApi, AConfigOfAnOlderProgramStillWorks) {
  coll_unique_id_t id;
  ASSERT_EQ(coll_get_unique_id(&id), COLL_SUCCESS);
  coll_config_t config = COLL_CONFIG_INIT;
  config.size =
      offsetof(coll_config_t, transports);  // as if the members after it did not exist yet
  config.algorithm = reinterpret_cast<const char*>(1);  // never to be read
  coll_comm_t comm = nullptr;
  EXPECT_EQ(coll_comm_init_rank(&comm, 1, &id, 0, &config), COLL_SUCCESS) << coll_last_error();
  EXPECT_EQ(coll_comm_destroy(comm), COLL_SUCCESS);
  config.size = 0;
  EXPECT_EQ(coll_comm_init_rank(&comm, 1, &id, 0, &config), COLL_INVALID_ARGUMENT);
  EXPECT_TRUE(last_error_says("COLL_CONFIG_INIT"));
}

TEST(CApi, TimesThatNoClockCountsAreForEverAndNoneIsNotANumber) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double time : {kInfinity, 1e300, 1e11}) {
    run_ranks(
        2,
        [](coll_comm_t comm, int) {
          EXPECT_EQ(coll_barrier(comm, nullptr), COLL_SUCCESS) << coll_last_error();
        },
        time, time);
  }
  coll_unique_id_t id;
  ASSERT_EQ(coll_get_unique_id(&id), COLL_SUCCESS);
  for (double coll_config_t::*member : {&coll_config_t::deadline_s, &coll_config_t::connect_s}) {
    coll_config_t config = COLL_CONFIG_INIT;
    config.*member = std::numeric_limits<double>::quiet_NaN();
    coll_comm_t comm = nullptr;
    EXPECT_EQ(coll_comm_init_rank(&comm, 1, &id, 0, &config), COLL_INVALID_ARGUMENT);
    EXPECT_TRUE(last_error_says("not a number")) << coll_last_error();
  }
}

TEST(CApi, NamesOnlyStatusesThatThereAre) {
  EXPECT_STREQ(coll_status_name(COLL_SUCCESS), "success");
  EXPECT_STREQ(coll_status_name(COLL_INTERNAL), "internal error");
  for (const int other : {COLL_INTERNAL + 1, 255, 256, 256 + COLL_MISMATCH, -1, 0x7fffffff}) {
    EXPECT_STREQ(coll_status_name(static_cast<coll_status_t>(other)), "unknown status") << other;
  }
}

TEST(CApi, ExplainsItsChoice) {
  run_ranks(2, [](coll_comm_t comm, int) {
    const coll_call_t call = asked(COLL_ALL_REDUCE, 1000, COLL_FLOAT32);
    size_t length = 0;
    ASSERT_EQ(coll_comm_explain(comm, &call, nullptr, 0, &length), COLL_SUCCESS);
    std::string text(length + 1, 'x');
    ASSERT_EQ(coll_comm_explain(comm, &call, text.data(), text.size(), nullptr), COLL_SUCCESS);
    EXPECT_EQ(std::strlen(text.c_str()), length);
    EXPECT_NE(text.find("all_reduce"), std::string::npos) << text;
    EXPECT_NE(text.find(":shm"), std::string::npos) << text;
    char small[6];
    ASSERT_EQ(coll_comm_explain(comm, &call, small, sizeof small, nullptr), COLL_SUCCESS);
    EXPECT_EQ(std::string(small), text.substr(0, 5));
  });
}

TEST(HostStream, RunsInOrderWhileTheCallerGoesOn) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    coll_stream_t stream = nullptr;
    ASSERT_EQ(coll_stream_create(&stream), COLL_SUCCESS);
    std::vector<std::int64_t> value(1000, rank + 1);
    for (int i = 0; i < 5; ++i) {  // each triples what the one before left, and equalises
      ASSERT_EQ(coll_all_reduce(value.data(), value.data(), value.size(), COLL_INT64, COLL_SUM,
                                comm, stream),
                COLL_SUCCESS);
    }
    EXPECT_EQ(coll_stream_synchronize(stream), COLL_SUCCESS) << coll_last_error();
    for (const std::int64_t v : value) ASSERT_EQ(v, 6 * 81);
    EXPECT_EQ(coll_stream_query(stream), COLL_SUCCESS);
    // A blocking call takes its turn behind what the stream still has.
    ASSERT_EQ(coll_all_reduce(value.data(), value.data(), value.size(), COLL_INT64, COLL_MAX, comm,
                              stream),
              COLL_SUCCESS);
    std::int64_t one = 1, sum = 0;
    ASSERT_EQ(coll_all_reduce(&one, &sum, 1, COLL_INT64, COLL_SUM, comm, nullptr), COLL_SUCCESS);
    EXPECT_EQ(sum, 3);
    EXPECT_EQ(coll_stream_synchronize(stream), COLL_SUCCESS) << coll_last_error();
    for (const std::int64_t v : value) ASSERT_EQ(v, 6 * 81);
    EXPECT_EQ(coll_stream_destroy(stream), COLL_SUCCESS);
  });
}

TEST(HostStream, QuerySaysInProgressUntilTheOthersCome) {
  std::atomic<bool> seen{false};
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    coll_stream_t stream = nullptr;
    ASSERT_EQ(coll_stream_create(&stream), COLL_SUCCESS);
    if (rank == 0) {
      ASSERT_EQ(coll_barrier(comm, stream), COLL_SUCCESS);
      EXPECT_EQ(coll_stream_query(stream), COLL_IN_PROGRESS);
      seen = true;
      seen.notify_all();
    } else {
      seen.wait(false);
      ASSERT_EQ(coll_barrier(comm, stream), COLL_SUCCESS);
    }
    EXPECT_EQ(coll_stream_synchronize(stream), COLL_SUCCESS);
    EXPECT_EQ(coll_stream_destroy(stream), COLL_SUCCESS);
  });
}

TEST(HostStream, TwoRanksBothSendFirst) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    coll_stream_t stream = nullptr;
    ASSERT_EQ(coll_stream_create(&stream), COLL_SUCCESS);
    std::vector<int> mine(100, rank), theirs(100, -1);
    ASSERT_EQ(coll_send(mine.data(), mine.size(), COLL_INT32, 1 - rank, comm, stream),
              COLL_SUCCESS);
    ASSERT_EQ(coll_recv(theirs.data(), theirs.size(), COLL_INT32, 1 - rank, comm, nullptr),
              COLL_SUCCESS)
        << coll_last_error();
    EXPECT_EQ(coll_stream_synchronize(stream), COLL_SUCCESS);
    EXPECT_EQ(theirs, std::vector<int>(100, 1 - rank));
    EXPECT_EQ(coll_stream_destroy(stream), COLL_SUCCESS);
  });
}

TEST(SeveralCommunicators, AreIndependentOfEachOther) {
  std::vector<std::thread> groups;
  for (int group = 0; group < 3; ++group) {
    groups.emplace_back([group] {
      run_ranks(2, [group](coll_comm_t comm, int rank) {
        for (int i = 0; i < 200; ++i) {
          float value = static_cast<float>(rank + group * 10 + i);
          ASSERT_EQ(coll_all_reduce(&value, &value, 1, COLL_FLOAT32, COLL_SUM, comm, nullptr),
                    COLL_SUCCESS);
          ASSERT_EQ(value, static_cast<float>(1 + 2 * (group * 10 + i)));
        }
      });
    });
  }
  for (std::thread& thread : groups) thread.join();
}

struct Disagreement {
  const char* name;
  std::function<coll_status_t(coll_comm_t, int rank, float* in, float* out)> call;
  const char* one;
  const char* other;
};

class RanksDisagree : public ::testing::TestWithParam<Disagreement> {};

/// Whatever differs, every rank's call, or its next one, fails with both calls named.
TEST_P(RanksDisagree, EveryRankFailsNamingBothCalls) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    std::vector<float> in(3000, 1), out(3000);
    coll_status_t status = GetParam().call(comm, rank, in.data(), out.data());
    // A root that only sends may be through before the others notice; it learns it in its next
    // call.
    if (status == COLL_SUCCESS) status = coll_barrier(comm, nullptr);
    EXPECT_EQ(status, COLL_MISMATCH) << "rank " << rank << ": " << coll_last_error();
    EXPECT_TRUE(last_error_says(GetParam().one)) << coll_last_error();
    EXPECT_TRUE(last_error_says(GetParam().other)) << coll_last_error();
    const char* text = nullptr;
    EXPECT_EQ(coll_comm_status(comm, &text), COLL_MISMATCH);
    coll_error_info_t info = COLL_ERROR_INFO_INIT;
    EXPECT_EQ(coll_comm_error_info(comm, &info), COLL_SUCCESS);
    EXPECT_GE(info.sequence, 1);
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_MISMATCH) << "the failure is sticky";
  });
}

INSTANTIATE_TEST_SUITE_P(
    Calls, RanksDisagree,
    ::testing::Values(
        Disagreement{"Operation",
                     [](coll_comm_t comm, int rank, float* in, float* out) {
                       return rank == 2
                                  ? coll_broadcast(in, out, 10, COLL_FLOAT32, 0, comm, nullptr)
                                  : coll_all_reduce(in, out, 10, COLL_FLOAT32, COLL_SUM, comm,
                                                    nullptr);
                     },
                     "broadcast #1 f32x10", "all_reduce #1 f32x10"},
        Disagreement{"Count",
                     [](coll_comm_t comm, int rank, float* in, float* out) {
                       return coll_all_reduce(in, out, rank == 1 ? 10 : 11, COLL_FLOAT32, COLL_SUM,
                                              comm, nullptr);
                     },
                     "f32x10", "f32x11"},
        Disagreement{"CountOfAnotherSizeClass",
                     [](coll_comm_t comm, int rank, float* in, float* out) {
                       return coll_all_reduce(in, out, rank == 1 ? 10 : 3000, COLL_FLOAT32,
                                              COLL_SUM, comm, nullptr);
                     },
                     "f32x10", "f32x3000"},
        Disagreement{"DataType",
                     [](coll_comm_t comm, int rank, float* in, float* out) {
                       return coll_all_reduce(in, out, 10, rank == 0 ? COLL_INT32 : COLL_FLOAT32,
                                              COLL_SUM, comm, nullptr);
                     },
                     "int32x10", "f32x10"},
        Disagreement{"Reduction",
                     [](coll_comm_t comm, int rank, float* in, float* out) {
                       return coll_all_reduce(in, out, 10, COLL_FLOAT32,
                                              rank == 0 ? COLL_MAX : COLL_SUM, comm, nullptr);
                     },
                     "max", "sum"},
        Disagreement{"Root",
                     [](coll_comm_t comm, int rank, float* in, float* out) {
                       return coll_broadcast(in, out, 10, COLL_FLOAT32, rank == 2 ? 1 : 0, comm,
                                             nullptr);
                     },
                     "root 0", "root 1"},
        Disagreement{"Order",
                     [](coll_comm_t comm, int rank, float* in, float* out) {
                       const auto reduce = [&] {
                         return coll_all_reduce(in, out, 10, COLL_FLOAT32, COLL_SUM, comm, nullptr);
                       };
                       const auto gather = [&] {
                         return coll_all_gather(in, out, 10, COLL_FLOAT32, comm, nullptr);
                       };
                       const coll_status_t first = rank == 1 ? gather() : reduce();
                       return first != COLL_SUCCESS ? first : rank == 1 ? reduce() : gather();
                     },
                     "all_gather #1", "all_reduce #1"}),
    [](const auto& which) { return std::string(which.param.name); });

TEST(Abort, EndsCallsOnAllRanks) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    if (rank == 2) {
      EXPECT_EQ(coll_comm_abort(comm), COLL_SUCCESS);
    }
    EXPECT_EQ(coll_barrier(comm, nullptr), COLL_ABORTED) << coll_last_error();
    EXPECT_TRUE(last_error_says("rank 2")) << coll_last_error();
  });
}

TEST(Deadline, SaysWhoIsWhere) {
  std::atomic<int> failed{0};
  run_ranks(
      3,
      [&](coll_comm_t comm, int rank) {
        if (rank == 1) {  // never calls
          for (int now = failed; now < 2; now = failed) failed.wait(now);
          return;
        }
        EXPECT_EQ(coll_barrier(comm, nullptr), COLL_DEADLINE) << coll_last_error();
        EXPECT_TRUE(last_error_says("barrier #1")) << coll_last_error();
        EXPECT_TRUE(last_error_says("rank 1")) << coll_last_error();
        ++failed;
        failed.notify_all();
      },
      0.3);
}

}  // namespace
