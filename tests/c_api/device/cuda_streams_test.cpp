// SPDX-License-Identifier: Apache-2.0
// Operations on streams of CUDA: in the order of the stream, for every operation.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "c_api/device/cuda_stream_calls.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace cuda_streams_test {

using Values = std::vector<float>;

/// Small whole numbers: their sums are exact.
Values some_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values(count);
  for (float& value : values) value = static_cast<float>(random() % 201) - 100;
  return values;
}

Values sum_of(const std::vector<Values>& all) {
  Values sum(all[0].size());
  for (const Values& one : all)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
  return sum;
}

struct Case {
  const char* name;
  bool whole_input, whole_output;  ///< a block for each rank
  std::function<coll_status_t(const float* send, float* recv, std::size_t count, coll_comm_t comm,
                              coll_stream_t stream)>
      call;
  /// Of all ranks' inputs; empty: unspecified.
  std::function<Values(const std::vector<Values>& inputs, int rank, std::size_t count)> expected;
};

Values blocks(const std::vector<Values>& inputs, std::size_t block, std::size_t count) {
  Values all;
  for (const Values& input : inputs) {
    const auto begin = input.begin() + static_cast<std::ptrdiff_t>(block * count);
    all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  return all;
}

const Case kCases[] = {
    {"all_reduce", false, false,
     [](auto send, auto recv, auto count, auto comm, auto stream) {
       return coll_all_reduce(send, recv, count, COLL_FLOAT32, COLL_SUM, comm, stream);
     },
     [](const auto& inputs, int, std::size_t) { return sum_of(inputs); }},
    {"reduce", false, false,
     [](auto send, auto recv, auto count, auto comm, auto stream) {
       return coll_reduce(send, recv, count, COLL_FLOAT32, COLL_SUM, 0, comm, stream);
     },
     [](const auto& inputs, int rank, std::size_t) {
       return rank == 0 ? sum_of(inputs) : Values{};
     }},
    {"broadcast", false, false,
     [](auto send, auto recv, auto count, auto comm, auto stream) {
       return coll_broadcast(send, recv, count, COLL_FLOAT32, 0, comm, stream);
     },
     [](const auto& inputs, int, std::size_t) { return inputs[0]; }},
    {"all_gather", false, true,
     [](auto send, auto recv, auto count, auto comm, auto stream) {
       return coll_all_gather(send, recv, count, COLL_FLOAT32, comm, stream);
     },
     [](const auto& inputs, int, std::size_t count) { return blocks(inputs, 0, count); }},
    {"reduce_scatter", true, false,
     [](auto send, auto recv, auto count, auto comm, auto stream) {
       return coll_reduce_scatter(send, recv, count, COLL_FLOAT32, COLL_SUM, comm, stream);
     },
     [](const auto& inputs, int rank, std::size_t count) {
       const Values sum = sum_of(inputs);
       return blocks({sum}, static_cast<std::size_t>(rank), count);
     }},
    {"all_to_all", true, true,
     [](auto send, auto recv, auto count, auto comm, auto stream) {
       return coll_all_to_all(send, recv, count, COLL_FLOAT32, comm, stream);
     },
     [](const auto& inputs, int rank, std::size_t count) {
       return blocks(inputs, static_cast<std::size_t>(rank), count);
     }},
    {"gather", false, true,
     [](auto send, auto recv, auto count, auto comm, auto stream) {
       return coll_gather(send, recv, count, COLL_FLOAT32, 0, comm, stream);
     },
     [](const auto& inputs, int rank, std::size_t count) {
       return rank == 0 ? blocks(inputs, 0, count) : Values{};
     }},
    {"scatter", true, false,
     [](auto send, auto recv, auto count, auto comm, auto stream) {
       return coll_scatter(send, recv, count, COLL_FLOAT32, 0, comm, stream);
     },
     [](const auto& inputs, int rank, std::size_t count) {
       return blocks({inputs[0]}, static_cast<std::size_t>(rank), count);
     }},
    {"a ring of sends", false, false,
     [](auto send, auto recv, auto count, auto comm, auto stream) {
       int rank = 0, size = 0;
       EXPECT_COLL(coll_comm_rank(comm, &rank));
       EXPECT_COLL(coll_comm_size(comm, &size));
       EXPECT_COLL(coll_group_start());
       EXPECT_COLL(coll_send(send, count, COLL_FLOAT32, (rank + 1) % size, comm, stream));
       EXPECT_COLL(coll_recv(recv, count, COLL_FLOAT32, (rank + size - 1) % size, comm, stream));
       return coll_group_end();
     },
     [](const auto& inputs, int rank, std::size_t) {
       return inputs[(static_cast<std::size_t>(rank) + inputs.size() - 1) % inputs.size()];
     }},
};

class EachCase : public ::testing::TestWithParam<int> {};

TEST_P(EachCase, RunsBehindWhatTheStreamHoldsAndBeforeWhatFollows) {
  const int size = GetParam();
  const std::uint64_t seed = coll::test::test_seed();
  for (const Case& each : kCases) {
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{70'001}}) {
      SCOPED_TRACE(std::string(each.name) + " of " + std::to_string(count));
      std::vector<Values> inputs;
      const auto ranks = static_cast<std::size_t>(size);
      for (std::size_t rank = 0; rank < ranks; ++rank)
        inputs.push_back(some_values(count * (each.whole_input ? ranks : 1), seed + rank));
      run_streams(size, [&](coll_comm_t comm, int rank, const BothStreams& stream) {
        const Values& mine = inputs[static_cast<std::size_t>(rank)];
        const TestMemory<float> send(mine.size() + 1);
        const TestMemory<float> recv(count * (each.whole_output ? ranks : 1) + 1);
        Values output(recv.bytes() / sizeof(float) - 1, -7.F);
        put(mine, send, stream);  // not there yet when the operation is put on the stream
        EXPECT_COLL(each.call(send.pointer(), recv.pointer(), count, comm, stream));
        get(recv, output, stream);
        stream.synchronize();
        const Values expected = each.expected(inputs, rank, count);
        if (!expected.empty() || count == 0) {
          EXPECT_EQ(output, expected);
        }
        EXPECT_COLL(coll_stream_synchronize(stream));
      });
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, EachCase, ::testing::Values(1, 2, 3, 4));

TEST(CudaStreams, InPlaceAndManyInARow) {
  constexpr std::size_t kCount = 5000;
  constexpr int kCalls = 50;
  run_streams(3, [&](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(kCount, static_cast<float>(rank + 1)));
    for (int i = 0; i < kCalls; ++i) {
      EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), kCount, COLL_FLOAT32, COLL_AVG,
                                  comm, stream));
    }
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_EQ(data.read(), Values(kCount, 2.F));
  });
}

TEST(CudaStreams, ReturnsAtOnceAndWaitsForTheStream) {
  run_streams(2, [&](coll_comm_t comm, int, const BothStreams& stream) {
    const TestMemory<float> data(Values(100, 1.F));
    const TestMemory<unsigned> word(1);
    EXPECT_CUDA_OK(cuStreamWaitValue32_v2(stream, word.at(), 1, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT_COLL(
        coll_all_reduce(data.pointer(), data.pointer(), 100, COLL_FLOAT32, COLL_SUM, comm, stream));
    EXPECT_EQ(coll_stream_query(stream), COLL_IN_PROGRESS);
    const TestStream other;
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(other, word.at(), 1, 0));
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_COLL(coll_stream_query(stream));
    EXPECT_EQ(data.read(), Values(100, 2.F));
    other.synchronize();
  });
}

TEST(CudaStreams, TwoCommunicatorsOnTwoStreamsInOppositeOrders) {
  run_streams(2, [&](coll_comm_t comm, int rank, const BothStreams& one) {
    coll_comm_t second = nullptr;
    EXPECT_COLL(coll_comm_split(comm, 0, rank, nullptr, &second));
    const BothStreams two;
    constexpr std::size_t kCount = 20'000;
    const TestMemory<float> a(Values(kCount, 1.F)), b(Values(kCount, 2.F));
    for (int round = 0; round < 20; ++round) {
      const auto first = [&] {
        EXPECT_COLL(
            coll_all_reduce(a.pointer(), a.pointer(), kCount, COLL_FLOAT32, COLL_MAX, comm, one));
      };
      const auto other = [&] {
        EXPECT_COLL(
            coll_all_reduce(b.pointer(), b.pointer(), kCount, COLL_FLOAT32, COLL_MIN, second, two));
      };
      if (rank == 0) first();
      other();
      if (rank != 0) first();
    }
    EXPECT_COLL(coll_stream_synchronize(one));
    EXPECT_COLL(coll_stream_synchronize(two));
    EXPECT_EQ(a.read(), Values(kCount, 1.F));
    EXPECT_EQ(b.read(), Values(kCount, 2.F));
    EXPECT_COLL(coll_comm_destroy(second));
  });
}

TEST(CudaStreams, OneGroupOnStreamsOfAllKinds) {
  run_streams(2, [&](coll_comm_t comm, int rank, const BothStreams& stream) {
    coll_stream_t host = nullptr;
    EXPECT_COLL(coll_stream_create(&host));
    const BothStreams second;
    const auto mine = static_cast<float>(rank + 1);
    const TestMemory<float> a(Values(10, mine)), b(Values(20, mine)), e(Values(10, mine));
    Values c(30, mine), d(40, mine);
    EXPECT_COLL(coll_group_start());
    const auto sum = [&](float* data, std::size_t count, coll_stream_t on) {
      EXPECT_COLL(coll_all_reduce(data, data, count, COLL_FLOAT32, COLL_SUM, comm, on));
    };
    sum(a.pointer(), 10, stream);
    sum(c.data(), 30, host);
    sum(b.pointer(), 20, second);
    sum(d.data(), 40, nullptr);
    sum(e.pointer(), 10, stream);
    EXPECT_EQ(coll_stream_destroy(stream), COLL_INVALID_USAGE);
    EXPECT_COLL(coll_group_end());
    EXPECT_EQ(d, Values(40, 3.F));
    EXPECT_COLL(coll_stream_synchronize(host));
    EXPECT_EQ(c, Values(30, 3.F));
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_COLL(coll_stream_synchronize(second));
    EXPECT_EQ(a.read(), Values(10, 3.F));
    EXPECT_EQ(e.read(), Values(10, 3.F));
    EXPECT_EQ(b.read(), Values(20, 3.F));
    EXPECT_COLL(coll_stream_destroy(host));
  });
}

TEST(CudaStreams, PartsKeepWhatLiesBetweenThem) {
  run_streams(3, [&](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(100, static_cast<float>(rank)));
    Values on_host(5, static_cast<float>(rank));
    const coll_part_t parts[] = {{data.pointer() + 3, data.pointer() + 3, 7},
                                 {on_host.data(), on_host.data(), 5},
                                 {data.pointer() + 40, data.pointer() + 60, 10}};
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_ALL_REDUCE;
    call.type = COLL_FLOAT32;
    call.op = COLL_SUM;
    call.parts = parts;
    call.part_count = std::size(parts);
    EXPECT_COLL(coll_start(&call, comm, stream, nullptr));
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_EQ(on_host, Values(5, 3.F));
    Values expected(100, static_cast<float>(rank));
    std::fill_n(expected.begin() + 3, 7, 3.F);
    std::fill_n(expected.begin() + 60, 10, 3.F);
    EXPECT_EQ(data.read(), expected);
  });
}

TEST(CudaStreams, UnequalBlocksKeepWhatLiesBetweenThem) {
  run_streams(3, [&](coll_comm_t comm, int rank, const BothStreams& stream) {
    const std::size_t counts[] = {4, 0, 9}, places[] = {2, 8, 10};
    const auto mine = static_cast<std::size_t>(rank);
    const TestMemory<float> send(Values(10, static_cast<float>(rank + 1)));
    const TestMemory<float> recv(Values(25, -1.F));
    EXPECT_COLL(coll_all_gatherv(counts[mine] == 0 ? nullptr : send.pointer(), recv.pointer(),
                                 counts, places, COLL_FLOAT32, comm, stream));
    EXPECT_COLL(coll_stream_synchronize(stream));
    Values expected(25, -1.F);
    std::fill_n(expected.begin() + 2, 4, 1.F);
    std::fill_n(expected.begin() + 10, 9, 3.F);
    EXPECT_EQ(recv.read(), expected);
  });
}

TEST(CudaStreams, AShorterMessageLeavesTheRestOfItsBuffer) {
  run_streams(2, [&](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(50, static_cast<float>(rank + 5)));
    coll_message_t message = COLL_MESSAGE_INIT;
    if (rank == 0) {
      EXPECT_COLL(coll_recv_tagged(data.pointer(), 50, COLL_FLOAT32, 1, 7, &message, comm, stream));
    } else {
      EXPECT_COLL(coll_send_tagged(data.pointer(), 20, COLL_FLOAT32, 0, 7, comm, stream));
    }
    EXPECT_COLL(coll_stream_synchronize(stream));
    Values expected(50, static_cast<float>(rank + 5));
    if (rank == 0) {
      EXPECT_EQ(message.count, 20U);
      std::fill_n(expected.begin(), 20, 6.F);
    }
    EXPECT_EQ(data.read(), expected);
  });
}

TEST(CudaStreams, FactorsAndTheProgramsOwnReductions) {
  run_streams(2, [&](coll_comm_t comm, int rank, const BothStreams& stream) {
    const TestMemory<float> data(Values(300, static_cast<float>(rank + 1)));
    const float factor = 10.F;
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_ALL_REDUCE;
    call.type = COLL_FLOAT32;
    call.op = COLL_SUM;
    call.send = call.recv = data.pointer();
    call.count = 300;
    call.factor = &factor;
    EXPECT_COLL(coll_start(&call, comm, stream, nullptr));
    coll_reduction_t larger = COLL_REDUCTION_INIT;
    larger.combine = [](void*, const void* left, const void* right, void* into, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        static_cast<float*>(into)[i] =
            std::max(static_cast<const float*>(left)[i], static_cast<const float*>(right)[i]) + 1;
      }
    };
    larger.commutative = 1;
    call.factor = nullptr;
    call.reduction = &larger;
    EXPECT_COLL(coll_start(&call, comm, stream, nullptr));
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_EQ(data.read(), Values(300, 31.F));
  });
}

TEST(CudaStreams, BuffersOnTheHostToo) {
  run_streams(2, [&](coll_comm_t comm, int rank, const BothStreams& stream) {
    Values send(64, static_cast<float>(rank + 1));
    const TestMemory<float> recv(64);
    EXPECT_COLL(
        coll_all_reduce(send.data(), recv.pointer(), 64, COLL_FLOAT32, COLL_SUM, comm, stream));
    EXPECT_COLL(
        coll_all_reduce(recv.pointer(), send.data(), 64, COLL_FLOAT32, COLL_SUM, comm, stream));
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_EQ(send, Values(64, 6.F));
  });
}

TEST(CudaStreams, OfAContextOfItsOwn) {
  int devices = 0;
  EXPECT_CUDA_OK(cuInit(0));
  EXPECT_CUDA_OK(cuDeviceGetCount(&devices));
  if (devices < 2) GTEST_SKIP() << "one device";
  run_ranks(2, [&](coll_comm_t comm, int rank) {
    // Each rank has a device and context that are current only while it makes its things.
    std::unique_ptr<OnDevice> device = std::make_unique<OnDevice>(rank);
    const BothStreams stream;
    const TestMemory<float> data(Values(1000, 1.F));
    const OnDevice elsewhere(1 - rank);
    EXPECT_COLL(coll_all_reduce(data.pointer(), data.pointer(), 1000, COLL_FLOAT32, COLL_SUM, comm,
                                stream));
    EXPECT_COLL(coll_stream_synchronize(stream));
    EXPECT_EQ(data.read(), Values(1000, 2.F));
  });
}

}  // namespace cuda_streams_test
}  // namespace collectives::testing
