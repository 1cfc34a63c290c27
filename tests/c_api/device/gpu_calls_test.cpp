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

TEST(GpuCalls, LongCallsAreMovedByTheGpus) {
  for (const int size : {2, 3, 5}) {
    on_gpus(size, [size](coll_comm_t comm, int rank, const BothStreams& stream) {
      // Kernels that wait for one another need GPUs that reach each other.
      const char* const peers = std::getenv("EMUCUDA_PEERS");
      const bool fused = peers == nullptr || std::string(peers) != "0";
      const std::string by = explained(comm, kCount);
      EXPECT_NE(by.find(fused ? "moved by: kernels" : "moved by: streams"), std::string::npos)
          << by;
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

std::string who_sends(coll_comm_t comm, std::size_t count, int peer) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_SEND;
  call.count = count;
  call.type = COLL_FLOAT32;
  call.root = peer;
  std::vector<char> text(1 << 16);
  size_t length = 0;
  EXPECT_COLL(coll_comm_explain(comm, &call, text.data(), text.size(), &length));
  return text.data();
}

/// Each rank sends to all others and receives from all, whatever the order, and wherever its
/// buffers lie: no send waits for the receive that its peer issues later.
TEST(GpuCalls, ExchangesInAnyOrder) {
  constexpr int kSize = 3;
  on_gpus(kSize, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const int next = (rank + 1) % kSize, last = (rank + 2) % kSize;
    const std::string by = who_sends(comm, kCount, next);
    EXPECT_NE(by.find("moved by: copies of the ranks' GPUs"), std::string::npos) << by;
    EXPECT_EQ(who_sends(comm, 10, next).find("of the ranks' GPUs"), std::string::npos);
    const BothStreams second;
    const TestMemory<float> out(counting(kCount, rank)), from_next(kCount), from_last(kCount);
    Values host_out = counting(kCount, rank), host_in(kCount);
    for (unsigned turn = 0; turn < 8; ++turn) {
      const bool from_host = turn % 2 != 0, to_host = turn / 2 % 2 != 0,
                 sends_first = turn / 4 == 0;
      const float* const mine = from_host ? host_out.data() : out.pointer();
      float* const theirs = to_host ? host_in.data() : from_last.pointer();
      EXPECT_CUDA_OK(cuMemsetD8Async(from_next.at(), 0xee, from_next.bytes(), second));
      host_in.assign(kCount, -1.F);
      const auto send = [&] {
        for (const int peer : {next, last})
          EXPECT_COLL(coll_send(mine, kCount, COLL_FLOAT32, peer, comm, stream));
      };
      const auto receive = [&] {
        EXPECT_COLL(coll_recv(theirs, kCount, COLL_FLOAT32, last, comm, second));
        EXPECT_COLL(coll_recv(from_next.pointer(), kCount, COLL_FLOAT32, next, comm, second));
      };
      if (sends_first) send();
      receive();
      if (!sends_first) send();
      EXPECT_COLL(coll_stream_synchronize(stream));
      EXPECT_COLL(coll_stream_synchronize(second));
      ASSERT_EQ(to_host ? host_in : from_last.read(), counting(kCount, last)) << "turn " << turn;
      ASSERT_EQ(from_next.read(), counting(kCount, next)) << "turn " << turn;
    }
    // Blocking, and of another length: the pair's connection is there.
    if (rank == 0) {
      EXPECT_COLL(coll_send(out.pointer(), kCount / 2, COLL_FLOAT32, 1, comm, nullptr));
    } else if (rank == 1) {
      EXPECT_COLL(coll_recv(from_last.pointer(), kCount / 2, COLL_FLOAT32, 0, comm, nullptr));
      const Values got = from_last.read();
      EXPECT_TRUE(std::equal(got.begin(), got.begin() + kCount / 2, counting(kCount, 0).begin()));
    }
  });
}

/// A first exchange moves while a collective of the same communicator waits for a rank, which
/// issues its part only after the exchange.
TEST(GpuCalls, ExchangesPassCollectives) {
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams&) {
    coll_stream_t stream =
        nullptr;  // of the library: the collective begins as soon as it is issued
    EXPECT_COLL(coll_stream_create(&stream));
    const TestMemory<float> sums(counting(kCount, rank)), data(counting(kCount, rank));
    const auto sum = [&] {
      EXPECT_COLL(coll_all_reduce(sums.pointer(), sums.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                  comm, stream));
    };
    sum();  // what that needs is made while nothing waits
    EXPECT_COLL(coll_stream_synchronize(stream));
    if (rank == 0) sum();
    EXPECT_COLL(rank == 0 ? coll_send(data.pointer(), kCount, COLL_FLOAT32, 1, comm, nullptr)
                          : coll_recv(data.pointer(), kCount, COLL_FLOAT32, 0, comm, nullptr));
    if (rank == 1) sum();
    EXPECT_COLL(coll_stream_synchronize(stream));
    Values twice = sum_of(kCount, 2);
    for (float& value : twice) value *= 2;
    EXPECT_EQ(sums.read(), twice);
    EXPECT_EQ(data.read(), counting(kCount, 0));
    EXPECT_COLL(coll_stream_destroy(stream));
  });
}

TEST(GpuCalls, GraphsOfExchanges) {
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> out(kCount), in(kCount);
    Values input(kCount), output(kCount);
    const TestGraph graph(stream, [&] {
      put(input, out, stream);
      EXPECT_COLL(coll_group_start());
      EXPECT_COLL(coll_send(out.pointer(), kCount, COLL_FLOAT32, 1 - rank, comm, stream));
      EXPECT_COLL(coll_recv(in.pointer(), kCount, COLL_FLOAT32, 1 - rank, comm, stream));
      EXPECT_COLL(coll_group_end());
      get(in, output, stream);
    });
    for (int launch = 0; launch < 100; ++launch) {
      input.assign(kCount, static_cast<float>(10 * launch + rank));
      graph.launch(stream);
      stream.synchronize();
      ASSERT_EQ(output, Values(kCount, static_cast<float>(10 * launch + 1 - rank)));
    }
  });
}

/// The slots may hold all that is sent, so the send itself may end well before.
TEST(GpuCalls, AnExchangeOfTwoLengthsFailsTheCommunicator) {
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(kCount, 1.F));
    const std::size_t count = kCount - static_cast<std::size_t>(rank);
    coll_status_t said = rank == 0
                             ? coll_send(data.pointer(), count, COLL_FLOAT32, 1, comm, stream)
                             : coll_recv(data.pointer(), count, COLL_FLOAT32, 0, comm, stream);
    stream.synchronize();
    if (said == COLL_SUCCESS) said = coll_stream_synchronize(stream);
    EXPECT_TRUE(said == COLL_MISMATCH || (rank == 0 && said == COLL_SUCCESS)) << said;
    while (coll_comm_status(comm, nullptr) == COLL_SUCCESS) std::this_thread::yield();
    EXPECT_EQ(coll_comm_status(comm, nullptr), COLL_MISMATCH);
  });
}

/// One length is for the GPUs, the other one for the host: the ends wait on two connections.
TEST(GpuCalls, AnExchangeThatTheEndsMoveDifferentlyIsAnErrorOnBoth) {
  for (const bool long_send : {true, false}) {
    on_gpus(2, [long_send](coll_comm_t comm, int rank, const BothStreams& stream) {
      const TestMemory<float> data(Values(kCount, 1.F));
      const std::size_t count = (rank == 0) == long_send ? kCount : 1000;
      if (rank == 0) {
        static_cast<void>(coll_send(data.pointer(), count, COLL_FLOAT32, 1, comm, stream));
      } else {
        static_cast<void>(coll_recv(data.pointer(), count, COLL_FLOAT32, 0, comm, stream));
      }
      stream.synchronize();
      static_cast<void>(coll_stream_synchronize(stream));
      while (coll_comm_status(comm, nullptr) == COLL_SUCCESS) std::this_thread::yield();
      EXPECT_EQ(coll_comm_status(comm, nullptr), COLL_MISMATCH);
    });
  }
}

/// The two calls have waited for as long, so they are in doubt together, and the first one is fine.
TEST(GpuCalls, AMismatchBesideACallThatIsOnlyLate) {
  on_gpus(3, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(kCount, 1.F)), late(kCount);
    if (rank == 0) {
      EXPECT_COLL(coll_group_start());
      EXPECT_COLL(coll_recv(late.pointer(), kCount, COLL_FLOAT32, 2, comm, stream));
      EXPECT_COLL(coll_recv(data.pointer(), 1000, COLL_FLOAT32, 1, comm, stream));
      EXPECT_COLL(coll_group_end());
    } else if (rank == 1) {
      static_cast<void>(coll_send(data.pointer(), kCount, COLL_FLOAT32, 0, comm, stream));
    }
    stream.synchronize();
    static_cast<void>(coll_stream_synchronize(stream));
    while (coll_comm_status(comm, nullptr) == COLL_SUCCESS) std::this_thread::yield();
    EXPECT_EQ(coll_comm_status(comm, nullptr), COLL_MISMATCH);
  });
}

/// The slots may hold the first sends, and then there are none left.
TEST(GpuCalls, SendsThatNobodyReceivesHaveADeadline) {
  on_gpus(
      2,
      [](coll_comm_t comm, int rank, const BothStreams& stream) {
        const TestMemory<float> data(Values(kCount, 1.F));
        coll_status_t said = COLL_SUCCESS;
        int sends = 0;
        for (; rank == 0 && said == COLL_SUCCESS && sends < 100; ++sends) {
          said = coll_send(data.pointer(), kCount, COLL_FLOAT32, 1, comm, stream);
          if (said == COLL_SUCCESS) said = coll_stream_synchronize(stream);
        }
        if (rank == 0) {
          EXPECT_EQ(said, COLL_DEADLINE) << sends << " sends";
        }
        while (coll_comm_status(comm, nullptr) == COLL_SUCCESS) std::this_thread::yield();
      },
      config_with(0.7));
}

/// A send ends though a receive from the same peer was issued before, whose message comes only
/// after all ranks have ended their sends; and a receive though a send was.
TEST(GpuCalls, TheTwoDirectionsOfAPairAreApart) {
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const BothStreams early;
    const TestMemory<float> out(counting(kCount, rank)), in(kCount);
    const auto send = [&](coll_stream_t on) {
      EXPECT_COLL(coll_send(out.pointer(), kCount, COLL_FLOAT32, 1 - rank, comm, on));
    };
    const auto receive = [&](coll_stream_t on) {
      EXPECT_COLL(coll_recv(in.pointer(), kCount, COLL_FLOAT32, 1 - rank, comm, on));
    };
    for (const bool receives_early : {true, false}) {
      EXPECT_CUDA_OK(cuMemsetD8Async(in.at(), 0xee, in.bytes(), stream));
      stream.synchronize();
      if (rank == 0) {
        receives_early ? receive(early) : send(early);
        receives_early ? send(nullptr) : receive(nullptr);
        EXPECT_COLL(coll_barrier(comm, nullptr));
        EXPECT_COLL(coll_stream_synchronize(early));
      } else {
        receives_early ? receive(nullptr) : send(nullptr);
        EXPECT_COLL(coll_barrier(comm, nullptr));
        receives_early ? send(nullptr) : receive(nullptr);
      }
      ASSERT_EQ(in.read(), counting(kCount, 1 - rank)) << receives_early;
    }
  });
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

TEST(GpuCalls, KernelsNeedRanksThatShareMemory) {
  coll_config_t by_sockets = config_with();
  by_sockets.transports = "tcp";
  on_gpus(
      2,
      [](coll_comm_t comm, int rank, const BothStreams& stream) {
        const std::string by = explained(comm, kCount);
        EXPECT_NE(by.find("moved by: streams"), std::string::npos) << by;
        const TestMemory<float> data(counting(kCount, rank));
        EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                    comm, stream));
        EXPECT_COLL(coll_stream_synchronize(stream));
        EXPECT_EQ(data.read(), sum_of(kCount, 2));
      },
      by_sockets);
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
