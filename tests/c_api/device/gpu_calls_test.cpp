// SPDX-License-Identifier: Apache-2.0
// Calls that GPUs move, of ranks that are threads and name their GPUs. Sums of whole numbers are
// exact in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <thread>

#include "c_api/device/ranks_on_gpus.hpp"

namespace collectives::testing {
namespace gpu_calls_test {

/// Kernels that wait for one another need GPUs that reach each other.
std::string mover_of_threads() {
  const char* const peers = std::getenv("EMUCUDA_PEERS");
  return peers == nullptr || std::string(peers) != "0" ? "kernels" : "streams";
}

TEST(GpuCalls, LongCallsAreMovedByTheGpus) {
  for (const int size : {2, 3, 5}) {
    on_gpus(size, [size](coll_comm_t comm, int rank, const BothStreams& stream) {
      const std::string by = explained(comm, kCount);
      EXPECT_NE(by.find("moved by: " + mover_of_threads()), std::string::npos) << by;
      EXPECT_FALSE(moved_by_gpus(comm, 10));
      const TestMemory<float> data(counting(kCount, rank)), out(kCount);
      for (int turn = 0; turn < 3; ++turn) {
        EXPECT_COLL(coll_all_reduce(data.pointer(), out.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                    comm, stream));
        EXPECT_COLL(coll_stream_synchronize(stream));
        ASSERT_EQ(out.read(), sum_of(kCount, size)) << "rank " << rank << ", turn " << turn;
      }
      coll_mem_stats_t stats = COLL_MEM_STATS_INIT;
      EXPECT_COLL(coll_comm_mem_stats(comm, &stats));
      EXPECT_EQ(stats.call_bytes, 0U) << "nothing was copied aside";
    });
  }
}

/// Neither joining nor its calls take any: the driver counts too. What calls copy through
/// (call_bytes) is the host's.
TEST(GpuCalls, OneRankTakesNoMemoryOfItsGpu) {
  const OnDevice device;
  const Values values = counting(kCount, 0);
  const TestMemory<float> data(values), out(kCount);
  const auto free_bytes = [] {
    std::size_t free = 0, total = 0;
    EXPECT_CUDA_OK(cuMemGetInfo_v2(&free, &total));
    return free;
  };
  const std::size_t before = free_bytes();
  on_gpus(1, [&](coll_comm_t comm, int, const BothStreams& stream) {
    coll_mem_stats_t stats = COLL_MEM_STATS_INIT;
    EXPECT_COLL(coll_comm_mem_stats(comm, &stats));
    EXPECT_EQ(stats.connection_bytes + stats.staging_bytes + stats.call_bytes, 0U) << "joining";
    for (const coll_stream_t on : {coll_stream_t{stream}, coll_stream_t{nullptr}}) {
      EXPECT_COLL(
          coll_all_reduce(data.pointer(), out.pointer(), kCount, COLL_FLOAT32, COLL_SUM, comm, on));
      EXPECT_COLL(coll_broadcast(out.pointer(), out.pointer(), kCount, COLL_FLOAT32, 0, comm, on));
      EXPECT_COLL(coll_stream_synchronize(stream));
      EXPECT_EQ(out.read(), values);
    }
    EXPECT_COLL(coll_comm_mem_stats(comm, &stats));
    EXPECT_EQ(stats.connections + stats.connection_bytes + stats.staging_bytes, 0U);
    // Of a real GPU other processes take memory too.
    if (is_emulated()) {
      EXPECT_EQ(free_bytes(), before);
    }
  });
}

/// Buffers of a GPU and of the host, in any mixture of ranks, blocking or on streams.
TEST(GpuCalls, BuffersMayLieAnywhere) {
  constexpr int kSize = 3;
  on_gpus(kSize, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const Values expected = sum_of(kCount, kSize);
    // Freed at the end only: to free may wait for the streams of other ranks, which wait for this.
    const TestMemory<float> data(kCount), out(kCount);
    for (unsigned turn = 0; turn < 16; ++turn) {
      const unsigned kinds = turn * 2654435761U >> (8 + 3 * rank);
      const bool input_there = kinds % 2 != 0, output_there = kinds / 2 % 2 != 0;
      const bool in_place = kinds / 4 % 2 != 0, blocking = turn % 2 != 0;
      Values input = counting(kCount, rank), output(kCount);
      EXPECT_CUDA_OK(cuMemcpyHtoD_v2(data.at(), input.data(), data.bytes()));
      const float* from = input_there ? data.pointer() : input.data();
      float* to = output_there ? out.pointer() : output.data();
      if (in_place) from = to = input_there ? data.pointer() : input.data();
      EXPECT_COLL(coll_all_reduce(from, to, kCount, COLL_FLOAT32, COLL_SUM, comm,
                                  blocking ? nullptr : static_cast<coll_stream_t>(stream)));
      EXPECT_COLL(coll_stream_synchronize(stream));
      const Values got = to == output.data()   ? output
                         : to == input.data()  ? input
                         : to == out.pointer() ? out.read()
                                               : data.read();
      ASSERT_EQ(got, expected) << "rank " << rank << ", turn " << turn;
    }
  });
}

TEST(GpuCalls, EveryOperation) {
  for (const int size : {2, 4}) {
    on_gpus(size, [size](coll_comm_t comm, int rank, const BothStreams& stream) {
      const auto ranks = static_cast<std::size_t>(size), me = static_cast<std::size_t>(rank);
      const std::size_t all = kCount * ranks;
      const TestMemory<float> in(counting(all, rank)), out(all);
      const Values mine = in.read();
      const auto block = [&](const Values& of, std::size_t index) {
        return Values(of.begin() + static_cast<std::ptrdiff_t>(index * kCount),
                      of.begin() + static_cast<std::ptrdiff_t>((index + 1) * kCount));
      };
      const auto result = [&] {
        EXPECT_COLL(coll_stream_synchronize(stream));
        return out.read();
      };
      EXPECT_COLL(coll_all_gather(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, comm, stream));
      Values got = result();
      for (std::size_t r = 0; r < ranks; ++r)
        ASSERT_EQ(block(got, r), counting(kCount, static_cast<int>(r)));
      EXPECT_COLL(coll_all_to_all(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, comm, stream));
      got = result();
      for (std::size_t r = 0; r < ranks; ++r)
        ASSERT_EQ(block(got, r), block(counting(all, static_cast<int>(r)), me));
      EXPECT_COLL(coll_reduce_scatter(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                      comm, stream));
      ASSERT_EQ(block(result(), 0), block(sum_of(all, size), me));
      EXPECT_COLL(coll_reduce(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, COLL_MAX, size - 1,
                              comm, stream));
      got = result();
      if (rank == size - 1) {
        for (std::size_t i = 0; i < kCount; ++i) {
          float most = 0;
          for (int r = 0; r < size; ++r)
            most = std::max(most,
                            static_cast<float>((i * 7 + static_cast<std::size_t>(r) * 13) % 1001));
          ASSERT_EQ(got[i], most) << i;
        }
      }
      EXPECT_COLL(
          coll_broadcast(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, 1, comm, stream));
      ASSERT_EQ(block(result(), 0), counting(kCount, 1));
      EXPECT_COLL(coll_gather(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, 0, comm, stream));
      got = result();
      if (rank == 0) {
        for (std::size_t r = 0; r < ranks; ++r)
          ASSERT_EQ(block(got, r), counting(kCount, static_cast<int>(r)));
      }
      EXPECT_COLL(coll_scatter(in.pointer(), out.pointer(), kCount, COLL_FLOAT32, 1, comm, stream));
      ASSERT_EQ(block(result(), 0), block(counting(all, 1), me));
      EXPECT_COLL(coll_group_start());
      EXPECT_COLL(coll_send(in.pointer(), kCount, COLL_FLOAT32, (rank + 1) % size, comm, stream));
      EXPECT_COLL(
          coll_recv(out.pointer(), kCount, COLL_FLOAT32, (rank + size - 1) % size, comm, stream));
      EXPECT_COLL(coll_group_end());
      ASSERT_EQ(block(result(), 0), counting(kCount, (rank + size - 1) % size));
      EXPECT_EQ(in.read(), mine) << "an input changed";
    });
  }
}

/// What the program puts on the stream before and behind a call keeps its order, for many calls in
/// a row that nobody waits for.
TEST(GpuCalls, StreamsKeepTheirOrder) {
  on_gpus(3, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(kCount);
    std::vector<Values> inputs, outputs(8, Values(kCount));
    for (int call = 0; call < 8; ++call) inputs.push_back(counting(kCount, rank + call));
    for (std::size_t call = 0; call < 8; ++call) {
      put(inputs[call], data, stream);
      EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                  comm, stream));
      get(data, outputs[call], stream);
    }
    EXPECT_COLL(coll_stream_synchronize(stream));
    stream.synchronize();
    for (int call = 0; call < 8; ++call) {
      for (std::size_t i = 0; i < kCount; i += 997) {
        float sum = 0;
        for (int r = 0; r < 3; ++r)
          sum += static_cast<float>((i * 7 + static_cast<std::size_t>(r + call) * 13) % 1001);
        ASSERT_EQ(outputs[static_cast<std::size_t>(call)][i], sum) << "call " << call << ", " << i;
      }
    }
  });
}

/// Short calls go through the host and long ones do not, on two streams, in any mixture.
TEST(GpuCalls, ShortAndLongCallsSideBySide) {
  on_gpus(2, [](coll_comm_t comm, int, const BothStreams& stream) {
    const BothStreams second;
    const TestMemory<float> large(Values(kCount, 1.F)), small(Values(5, 1.F));
    for (int turn = 0; turn < 20; ++turn) {
      EXPECT_COLL(coll_all_reduce(large.pointer(), large.pointer(), kCount, COLL_FLOAT32, COLL_AVG,
                                  comm, stream));
      EXPECT_COLL(coll_all_reduce(small.pointer(), small.pointer(), 5, COLL_FLOAT32, COLL_AVG, comm,
                                  turn % 3 == 0 ? stream : second));
    }
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_COLL(coll_stream_synchronize(second));
    EXPECT_EQ(large.read(), Values(kCount, 1.F));
    EXPECT_EQ(small.read(), Values(5, 1.F));
  });
}

TEST(GpuCalls, Graphs) {
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(kCount);
    Values input(kCount), output(kCount);
    const TestGraph graph(stream, [&] {
      put(input, data, stream);
      EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                  comm, stream));
      get(data, output, stream);
    });
    for (int launch = 0; launch < 100; ++launch) {
      input.assign(kCount, static_cast<float>(rank + launch));
      graph.launch(stream);
      stream.synchronize();
      ASSERT_EQ(output, Values(kCount, static_cast<float>(2 * launch + 1)));
    }
  });
}

/// What the processor prepares: factors, and many parts as one call.
TEST(GpuCalls, FactorsAndParts) {
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> one(counting(kCount, rank)), out(kCount);
    const float factor = 2.F;
    const std::size_t half = kCount / 2;
    const coll_part_t parts[] = {{one.pointer() + half, out.pointer() + half, kCount - half},
                                 {one.pointer(), out.pointer(), half}};
    Values twice = sum_of(kCount, 2);
    for (float& value : twice) value *= 2;
    for (int turn = 0; turn < 8; ++turn) {
      const bool blocking = turn % 2 != 0, scales = turn / 2 % 2 != 0, packs = turn / 4 != 0;
      coll_call_t call = COLL_CALL_INIT;
      call.operation = COLL_ALL_REDUCE;
      call.type = COLL_FLOAT32;
      call.op = COLL_SUM;
      if (packs) {
        call.parts = parts;
        call.part_count = std::size(parts);
      } else {
        call.send = one.pointer();
        call.recv = out.pointer();
        call.count = kCount;
      }
      if (scales) call.factor = &factor;
      EXPECT_CUDA_OK(cuMemsetD8Async(out.at(), 0xee, out.bytes(), stream));
      stream.synchronize();
      if (blocking) {
        EXPECT_COLL(coll_run(&call, comm));
      } else {
        EXPECT_COLL(coll_start(&call, comm, stream, nullptr));
        EXPECT_COLL(coll_stream_synchronize(stream));
      }
      ASSERT_EQ(out.read(), scales ? twice : sum_of(kCount, 2)) << "turn " << turn;
    }
    EXPECT_EQ(one.read(), counting(kCount, rank)) << "an input changed";
  });
}

/// A fused kernel cuts all blocks alike.
TEST(GpuCalls, UnequalBlocksAreMovedByStreams) {
  on_gpus(3, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const std::vector<std::size_t> counts{kCount, 0, kCount / 3}, at{0, kCount, kCount};
    const std::size_t all = kCount + kCount / 3;
    const TestMemory<float> in(counting(kCount, rank)), out(all);
    EXPECT_COLL(coll_all_gatherv(in.pointer(), out.pointer(), counts.data(), at.data(),
                                 COLL_FLOAT32, comm, stream));
    EXPECT_COLL(coll_stream_synchronize(stream));
    Values expected = counting(kCount, 0);
    const Values last = counting(kCount / 3, 2);
    expected.insert(expected.end(), last.begin(), last.end());
    EXPECT_EQ(out.read(), expected);
  });
}

TEST(GpuCalls, OneRankWithoutAGpuAndAllGoThroughTheHost) {
  on_gpus(
      2,
      [](coll_comm_t comm, int rank, const BothStreams& stream) {
        EXPECT_FALSE(moved_by_gpus(comm, kCount));
        const TestMemory<float> data(counting(kCount, rank));
        EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                    comm, stream));
        EXPECT_COLL(coll_stream_synchronize(stream));
        EXPECT_EQ(data.read(), sum_of(kCount, 2));
      },
      config_with(), [](int rank) { return rank == 0; });
}

/// GPUs of a machine reach each other whatever joins the ranks' processes, where cuda_ipc may.
TEST(GpuCalls, KernelsNeedCudaIpcAndNoSharedMemory) {
  const std::pair<const char*, std::string> cases[] = {
      {"cuda_ipc,tcp", mover_of_threads()}, {"tcp", "streams"}, {"shm", "streams"}};
  for (const auto& [transports, by_whom] : cases) {
    SCOPED_TRACE(transports);
    coll_config_t config = config_with();
    config.transports = transports;
    on_gpus(
        2,
        [&mover = by_whom](coll_comm_t comm, int rank, const BothStreams& stream) {
          const std::string by = explained(comm, kCount);
          EXPECT_NE(by.find("moved by: " + mover), std::string::npos) << by;
          const TestMemory<float> data(counting(kCount, rank));
          EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), kCount, COLL_FLOAT32,
                                      COLL_SUM, comm, stream));
          EXPECT_COLL(coll_stream_synchronize(stream));
          EXPECT_EQ(data.read(), sum_of(kCount, 2));
        },
        config);
  }
}

TEST(GpuCalls, DifferentCallsAreAnErrorOnBothRanks) {
#if defined(COLL_THREAD_SANITIZER)
  GTEST_SKIP() << "a GPU that is released goes on with slots that its peer is writing; that is "
                  "worthless by then";
#endif
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(2 * kCount, 1.F));
    EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(),
                                kCount - static_cast<std::size_t>(rank), COLL_FLOAT32, COLL_SUM,
                                comm, stream));
    stream.synchronize();
    EXPECT_EQ(coll_stream_synchronize(stream), COLL_MISMATCH);
  });
}

TEST(GpuCalls, ACallThatNobodyMeetsHasADeadline) {
  on_gpus(
      2,
      [](coll_comm_t comm, int rank, const BothStreams& stream) {
        const TestMemory<float> data(Values(kCount, 1.F));
        const auto sum = [&] {
          EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), kCount, COLL_FLOAT32,
                                      COLL_SUM, comm, stream));
        };
        sum();
        if (rank == 0) sum();
        stream.synchronize();
        if (rank == 0) {
          EXPECT_EQ(coll_stream_synchronize(stream), COLL_DEADLINE);
        }
        while (coll_comm_status(comm, nullptr) == COLL_SUCCESS) std::this_thread::yield();
      },
      config_with(0.7));
}

TEST(GpuCalls, AbortEndsThem) {
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(kCount, 1.F));
    if (rank == 0) {
      EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                  comm, stream));
      EXPECT_COLL(coll_comm_abort(comm));
    }
    stream.synchronize();
    if (rank == 0) {
      EXPECT_EQ(coll_stream_synchronize(stream), COLL_ABORTED);
    }
    while (coll_comm_status(comm, nullptr) == COLL_SUCCESS) std::this_thread::yield();
  });
}

}  // namespace gpu_calls_test
}  // namespace collectives::testing
