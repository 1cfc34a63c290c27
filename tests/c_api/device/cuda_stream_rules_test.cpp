// SPDX-License-Identifier: Apache-2.0
// Operations on streams of CUDA that fail let the stream go on; and what such streams do not have.
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "c_api/device/cuda_stream_calls.hpp"

namespace collectives::testing {
namespace cuda_stream_rules_test {

using Values = std::vector<float>;

TEST(CudaStreamRules, AnAbortLetsTheStreamGoOn) {
  std::atomic<bool> there{false};
  run_streams(2, [&](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(100, 1.F));
    if (rank == 0) {
      EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), 100, COLL_FLOAT32, COLL_SUM, comm,
                                  stream));
      EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), 100, COLL_FLOAT32, COLL_SUM, comm,
                                  stream));
      there = true;
      stream.synchronize();  // CUDA's own wait ends too
      EXPECT_EQ(coll_stream_synchronize(stream), COLL_ABORTED);
    } else {
      while (!there) std::this_thread::yield();
      EXPECT_EQ(coll_comm_abort(comm), COLL_SUCCESS);
    }
  });
}

TEST(CudaStreamRules, ADeadlineNamesTheOperation) {
  run_streams(
      2,
      [&](coll_comm_t comm, int rank, const BothStreams& stream) {
        const TestMemory<float> data(Values(100, 1.F));
        if (rank == 0) {
          EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), 100, COLL_FLOAT32, COLL_SUM,
                                      comm, stream));
          EXPECT_EQ(coll_stream_synchronize(stream), COLL_DEADLINE);
          EXPECT_NE(std::string(coll_last_error()).find("all_reduce #1"), std::string::npos)
              << coll_last_error();
          EXPECT_COLL(coll_stream_query(stream));  // said once
        }
        while (coll_comm_status(comm, nullptr) == COLL_SUCCESS) std::this_thread::yield();
      },
      0.5);
}

TEST(CudaStreamRules, DifferentCallsAreAnErrorOnBothRanks) {
  run_streams(2, [&](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(100, 1.F));
    const std::size_t count = rank == 0 ? 100 : 99;
    EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), count, COLL_FLOAT32, COLL_SUM, comm,
                                stream));
    EXPECT_EQ(coll_stream_synchronize(stream), COLL_MISMATCH);
  });
}

TEST(CudaStreamRules, WhatTheyDoNotHave) {
  run_streams(1, [&](coll_comm_t comm, int, const BothStreams& stream) {
    coll_stream_t none = nullptr;
    EXPECT_EQ(coll_stream_from_cuda(nullptr, static_cast<CUstream>(stream)), COLL_INVALID_ARGUMENT);
    coll_event_t event = nullptr;
    EXPECT_COLL(coll_event_create(&event));
    EXPECT_EQ(coll_event_record(event, stream), COLL_UNSUPPORTED);
    EXPECT_EQ(coll_stream_wait_event(stream, event), COLL_UNSUPPORTED);
    EXPECT_COLL(coll_event_destroy(event));
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_BARRIER;
    coll_work_t work = nullptr;
    EXPECT_EQ(coll_start(&call, comm, stream, &work), COLL_UNSUPPORTED);
    EXPECT_COLL(coll_group_start());
    EXPECT_EQ(coll_start(&call, comm, stream, &work), COLL_UNSUPPORTED);
    EXPECT_EQ(coll_group_end(), COLL_UNSUPPORTED);
    EXPECT_EQ(work, nullptr);
    EXPECT_EQ(none, nullptr);
    EXPECT_COLL(coll_stream_query(stream));
  });
}

}  // namespace cuda_stream_rules_test
}  // namespace collectives::testing
