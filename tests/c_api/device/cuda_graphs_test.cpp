// SPDX-License-Identifier: Apache-2.0
// Operations that CUDA graphs hold: every launch is a call of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "c_api/device/cuda_stream_calls.hpp"

namespace collectives::testing {
namespace cuda_graphs_test {

using Values = std::vector<float>;
constexpr int kLaunches = 100;

TEST(CudaGraphs, EachLaunchWorksOnWhatIsThereThen) {
  for (const int size : {1, 2, 4}) {
    run_streams(size, [size](coll_comm_t comm, int rank, const BothStreams& stream) {
      constexpr std::size_t kCount = 3000;
      const TestMemory<float> in(kCount), out(kCount);
      Values input(kCount), output(kCount);
      const TestGraph graph(stream, [&] {
        put(input, in, stream);
        EXPECT_COLL(coll_all_reduce(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                    comm, stream));
        // The second needs what the first gave.
        EXPECT_COLL(coll_broadcast(out.pointer(), out.pointer(), kCount, COLL_FLOAT32, size - 1,
                                   comm, stream));
        get(out, output, stream);
      });
      for (int launch = 0; launch < kLaunches; ++launch) {
        input.assign(kCount, static_cast<float>(rank + launch));
        graph.launch(stream);
        stream.synchronize();
        const auto ranks = static_cast<float>(size), before = static_cast<float>(launch);
        ASSERT_EQ(output, Values(kCount, ranks * before + ranks * (ranks - 1) / 2));
      }
    });
  }
}

TEST(CudaGraphs, LaunchesInARowAndCallsBetweenThem) {
  run_streams(3, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(500, static_cast<float>(rank == 0)));
    const auto sum = [&] {
      EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), 500, COLL_FLOAT32, COLL_MAX, comm,
                                  stream));
    };
    const auto half = [&] {
      EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), 500, COLL_FLOAT32, COLL_AVG, comm,
                                  stream));
    };
    const TestGraph graph(stream, [&] {
      sum();
      half();
    });
    for (int launch = 0; launch < kLaunches; ++launch) {
      graph.launch(stream);  // without waiting for the one before
      if (launch % 7 == 0) sum();
    }
    stream.synchronize();
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_EQ(data.read(), Values(500, 1.F));
  });
}

TEST(CudaGraphs, TheStreamMayEndWhatItIssuesAtOnce) {
  // Before the driver has returned to the thread that put the operation there.
  run_streams(1, [](coll_comm_t comm, int, const BothStreams& stream) {
    const TestMemory<float> data(Values(8, 1.F));
    const TestGraph graph(stream, [&] { EXPECT_COLL(coll_barrier(comm, stream)); });
    std::atomic<bool> over = false;
    std::thread watcher([&] {
      while (!over) EXPECT_COLL(coll_stream_synchronize(stream));
    });
    for (int call = 0; call < 500; ++call) {
      EXPECT_COLL(
          coll_all_reduce(data.pointer(), data.pointer(), 8, COLL_FLOAT32, COLL_SUM, comm, stream));
    }
    EXPECT_COLL(coll_stream_synchronize(stream));
    over = true;
    watcher.join();
    EXPECT_EQ(data.read(), Values(8, 1.F));
  });
}

TEST(CudaGraphs, AGroupIsOneOperation) {
  run_streams(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(200, static_cast<float>(rank))), got(200);
    const TestGraph graph(stream, [&] {
      EXPECT_COLL(coll_group_start());
      EXPECT_COLL(coll_send(data.pointer(), 200, COLL_FLOAT32, 1 - rank, comm, stream));
      EXPECT_COLL(coll_recv(got.pointer(), 200, COLL_FLOAT32, 1 - rank, comm, stream));
      EXPECT_COLL(coll_group_end());
      EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(data.at(), got.at(), got.bytes(), stream));
    });
    for (int launch = 0; launch < kLaunches + 1; ++launch) graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(data.read(), Values(200, static_cast<float>(1 - rank)));
  });
}

TEST(CudaGraphs, NothingRunsWhileItIsCaptured) {
  run_streams(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(10, static_cast<float>(rank)));
    const TestGraph graph(stream, [&] {
      EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), 10, COLL_FLOAT32, COLL_SUM, comm,
                                  stream));
    });
    EXPECT_COLL(coll_stream_query(stream));
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_COLL(coll_barrier(comm, nullptr));  // the first call of both ranks
    EXPECT_EQ(data.read(), Values(10, static_cast<float>(rank)));
    graph.launch(stream);
    stream.synchronize();
    EXPECT_EQ(data.read(), Values(10, 1.F));
  });
}

TEST(CudaGraphs, CapturesOfAllThreadsAtOnce) {
  // Each forbids every other thread what is no work of a stream.
  run_streams(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(5000, static_cast<float>(rank)));
    const BothStreams other;
    EXPECT_COLL(coll_barrier(comm, other));
    EXPECT_COLL(coll_stream_synchronize(other));
    EXPECT_COLL(coll_barrier(comm, nullptr));
    const TestGraph graph(
        stream,
        [&] {
          EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), 5000, COLL_FLOAT32, COLL_MAX,
                                      comm, stream));
          EXPECT_COLL(coll_stream_query(other));
          EXPECT_COLL(coll_stream_synchronize(other));
          EXPECT_COLL(coll_barrier(comm, nullptr));
        },
        CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_COLL(coll_barrier(comm, nullptr));
    graph.launch(stream);
    stream.synchronize();
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_EQ(data.read(), Values(5000, 1.F));
  });
}

TEST(CudaGraphs, OneGroupIsOnOneStream) {
  run_streams(1, [](coll_comm_t comm, int, const BothStreams& stream) {
    const BothStreams second;
    const TestMemory<float> one(10), two(10);
    const auto both = [&] {
      EXPECT_COLL(coll_group_start());
      const auto sum = [comm](float* data, coll_stream_t on) {
        EXPECT_COLL(coll_all_reduce(data, data, 10, COLL_FLOAT32, COLL_SUM, comm, on));
      };
      sum(one.pointer(), stream);
      sum(two.pointer(), second);
      return coll_group_end();
    };
    EXPECT_COLL(both());
    const TestGraph graph(stream, [&] { EXPECT_COLL(coll_barrier(comm, stream)); });
    EXPECT_EQ(both(), COLL_INVALID_USAGE);
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_COLL(coll_stream_synchronize(second));
  });
}

TEST(CudaGraphs, DifferentGraphsAreAnErrorOnBothRanks) {
  run_streams(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(100, 1.F));
    const std::size_t count = rank == 0 ? 100 : 99;
    const TestGraph graph(stream, [&] {
      EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), count, COLL_FLOAT32, COLL_SUM,
                                  comm, stream));
    });
    for (int launch = 0; launch < 3; ++launch) graph.launch(stream);
    stream.synchronize();  // no launch hangs
    EXPECT_EQ(coll_stream_synchronize(stream), COLL_MISMATCH);
    EXPECT_EQ(coll_comm_status(comm, nullptr), COLL_MISMATCH);
  });
}

TEST(CudaGraphs, ALaunchThatNobodyMeetsHasADeadline) {
  run_streams(
      2,
      [](coll_comm_t comm, int rank, const BothStreams& stream) {
        const TestMemory<float> data(Values(100, 1.F));
        const TestGraph graph(stream, [&] {
          EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), 100, COLL_FLOAT32, COLL_SUM,
                                      comm, stream));
        });
        graph.launch(stream);
        if (rank == 0) graph.launch(stream);
        stream.synchronize();
        if (rank == 0) {
          EXPECT_EQ(coll_stream_synchronize(stream), COLL_DEADLINE);
        }
        while (coll_comm_status(comm, nullptr) == COLL_SUCCESS) std::this_thread::yield();
      },
      0.5);
}

}  // namespace cuda_graphs_test
}  // namespace collectives::testing
