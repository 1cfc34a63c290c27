// SPDX-License-Identifier: Apache-2.0
// Sends and receives that GPUs move, of ranks that are threads and name their GPUs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "c_api/device/ranks_on_gpus.hpp"

namespace collectives::testing {
namespace gpu_exchanges_test {

/// What the rank has issued ends, in whatever way; then the communicator fails by a mismatch.
void expect_mismatch(coll_comm_t comm, const BothStreams& stream) {
  stream.synchronize();
  static_cast<void>(coll_stream_synchronize(stream));
  while (coll_comm_status(comm, nullptr) == COLL_SUCCESS) std::this_thread::yield();
  EXPECT_EQ(coll_comm_status(comm, nullptr), COLL_MISMATCH);
}

/// Each rank sends to all others and receives from all, whatever the order, and wherever its
/// buffers lie: no send waits for the receive that its peer issues later.
TEST(GpuExchanges, MoveInAnyOrder) {
  constexpr int kSize = 3;
  on_gpus(kSize, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const int next = (rank + 1) % kSize, last = (rank + 2) % kSize;
    const std::string by = explained(comm, kCount, COLL_SEND, next);
    EXPECT_NE(by.find("moved by: copies of the ranks' GPUs"), std::string::npos) << by;
    EXPECT_EQ(explained(comm, 10, COLL_SEND, next).find("of the ranks' GPUs"), std::string::npos);
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
TEST(GpuExchanges, PassCollectives) {
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams&) {
    // A stream of the library: the collective begins as soon as it is issued.
    coll_stream_t stream = nullptr;
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

TEST(GpuExchanges, Graphs) {
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
TEST(GpuExchanges, TwoLengthsFailTheCommunicator) {
  on_gpus(2, [](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(kCount, 1.F));
    const std::size_t count = kCount - static_cast<std::size_t>(rank);
    coll_status_t said = rank == 0
                             ? coll_send(data.pointer(), count, COLL_FLOAT32, 1, comm, stream)
                             : coll_recv(data.pointer(), count, COLL_FLOAT32, 0, comm, stream);
    stream.synchronize();
    if (said == COLL_SUCCESS) said = coll_stream_synchronize(stream);
    EXPECT_TRUE(said == COLL_MISMATCH || (rank == 0 && said == COLL_SUCCESS)) << said;
    expect_mismatch(comm, stream);
  });
}

/// One length is for the GPUs, the other one for the host: the ends wait on two connections.
TEST(GpuExchanges, EndsThatMoveItDifferentlyFailBoth) {
  for (const bool long_send : {true, false}) {
    on_gpus(2, [long_send](coll_comm_t comm, int rank, const BothStreams& stream) {
      const TestMemory<float> data(Values(kCount, 1.F));
      const std::size_t count = (rank == 0) == long_send ? kCount : 1000;
      if (rank == 0) {
        static_cast<void>(coll_send(data.pointer(), count, COLL_FLOAT32, 1, comm, stream));
      } else {
        static_cast<void>(coll_recv(data.pointer(), count, COLL_FLOAT32, 0, comm, stream));
      }
      expect_mismatch(comm, stream);
    });
  }
}

/// The two calls have waited for as long, so they are in doubt together, and the first one is fine.
TEST(GpuExchanges, AMismatchBesideACallThatIsOnlyLate) {
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
    expect_mismatch(comm, stream);
  });
}

/// The slots may hold the first sends, and then there are none left.
TEST(GpuExchanges, SendsThatNobodyReceivesHaveADeadline) {
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
TEST(GpuExchanges, TheTwoDirectionsOfAPairAreApart) {
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

}  // namespace gpu_exchanges_test
}  // namespace collectives::testing
