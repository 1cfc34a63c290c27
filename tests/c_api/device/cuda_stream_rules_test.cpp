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

TEST(CudaStreamRules, TwoHandlesOfOneStreamAreInItsOrder) {
  run_streams(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    coll_stream_t second = nullptr;
    EXPECT_COLL(coll_stream_from_cuda(&second, static_cast<CUstream>(stream)));
    const TestMemory<float> data(Values(100, static_cast<float>(rank + 1)));
    for (int i = 0; i < 20; ++i) {
      EXPECT_COLL(coll_group_start());
      for (coll_stream_t on : {second, static_cast<coll_stream_t>(stream)}) {
        EXPECT_COLL(
            coll_all_reduce(data.pointer(), data.pointer(), 100, COLL_FLOAT32, COLL_MAX, comm, on));
      }
      EXPECT_COLL(coll_group_end());
    }
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_COLL(coll_stream_query(second));
    const TestMemory<unsigned> word(1);
    EXPECT_CUDA_OK(cuStreamWaitValue32_v2(stream, word.at(), 1, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT_COLL(coll_barrier(comm, stream));
    EXPECT_EQ(coll_stream_query(second), COLL_IN_PROGRESS);
    const TestStream third;
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(third, word.at(), 1, 0));
    EXPECT_COLL(coll_stream_destroy(second));
    EXPECT_COLL(coll_stream_synchronize(stream));
    third.synchronize();
    EXPECT_EQ(data.read(), Values(100, 2.F));
  });
}

TEST(CudaStreamRules, AGroupThatFailsLetsItsStreamsGoOn) {
  run_streams(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const BothStreams second;
    const TestMemory<float> data(Values(100, static_cast<float>(rank)));
    const auto sum = [&](coll_stream_t on) {
      return coll_all_reduce(data.pointer(), data.pointer(), 100, COLL_FLOAT32, COLL_MAX, comm, on);
    };
    // The second stream's capture is broken: it waits for a stream that is not captured.
    const TestEvent outside;
    const TestMemory<unsigned> word(1);
    EXPECT_CUDA_OK(cuStreamWaitValue32_v2(stream, word.at(), 1, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT_CUDA_OK(cuEventRecord(outside, stream));
    EXPECT_CUDA_OK(cuStreamBeginCapture_v2(second, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_NE(cuda().cuStreamWaitEvent(second, outside, 0), CUDA_SUCCESS);
    EXPECT_COLL(coll_group_start());
    EXPECT_COLL(sum(stream));
    EXPECT_COLL(sum(second));
    EXPECT_NE(coll_group_end(), COLL_SUCCESS);
    CUgraph graph = nullptr;
    EXPECT_NE(cuda().cuStreamEndCapture(second, &graph), CUDA_SUCCESS);
    const TestStream third;
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(third, word.at(), 1, 0));
    stream.synchronize();
    third.synchronize();
    // Nothing was issued, so both ranks go on together.
    EXPECT_COLL(sum(stream));
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_EQ(data.read(), Values(100, 1.F));
  });
}

TEST(CudaStreamRules, LargerMessagesNeedNotWaitForOtherStreams) {
  // Rank 1's stream waits for rank 0 while rank 0 needs more pinned memory.
  std::atomic<std::size_t> waiting{0};
  run_streams(2, [&waiting](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(1 << 18, static_cast<float>(rank)));
    for (std::size_t count = 1 << 10; count <= 1 << 18; count *= 4) {
      while (rank == 0 && waiting != count) std::this_thread::yield();
      EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), count, COLL_FLOAT32, COLL_MAX,
                                  comm, stream));
      if (rank == 1) waiting = count;
      EXPECT_COLL(coll_stream_synchronize(stream));
    }
    EXPECT_EQ(data.read(), Values(1 << 18, 1.F));
  });
}

TEST(CudaStreamRules, WhatTheyDoNotHave) {
  run_streams(1, [&](coll_comm_t comm, int, const BothStreams& stream) {
    coll_stream_t none = nullptr;
    EXPECT_EQ(coll_stream_from_cuda(&none, reinterpret_cast<void*>(2)), COLL_UNSUPPORTED);
    EXPECT_EQ(none, nullptr) << "CU_STREAM_PER_THREAD";
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
    EXPECT_COLL(coll_stream_query(stream));
  });
}

}  // namespace cuda_stream_rules_test
}  // namespace collectives::testing
