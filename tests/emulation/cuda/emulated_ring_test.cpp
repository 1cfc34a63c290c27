// SPDX-License-Identifier: Apache-2.0
// A ring all-reduce of four ranks, each a thread with a stream, that talk by words of memory. With
// the thread sanitizer it shows that an order made of words is one.
#include <array>
#include <barrier>
#include <optional>
#include <thread>

#include "emulation/cuda/cuda_on_test.hpp"
#include "emulation/cuda/test_kernels.hpp"

namespace emulated_ring_test {
namespace {

using namespace emulation_test;

constexpr unsigned kRanks = 4;
constexpr std::size_t kChunk = 500;

/// What the neighbours of a rank must know of it.
struct Seat {
  CUdeviceptr inbox = 0, arrived = 0,
              freed = 0;  // freed: how often the right neighbour's inbox has been read
};

class Ring {
 public:
  explicit Ring(int rounds) : rounds_(rounds) {
    std::vector<std::thread> threads;
    for (unsigned rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([this, rank] { run(rank); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  void run(unsigned rank) {
    const OnDevice device;
    const TestStream stream;
    CUmodule module = nullptr;
    CUfunction add = nullptr;
    EXPECT_CUDA_OK(cuModuleLoadData(&module, "any image"));
    EXPECT_CUDA_OK(cuModuleGetFunction(&add, module, "add_floats"));
    {
      const TestMemory<float> data(kRanks * kChunk), inbox(kChunk);
      const TestMemory<unsigned> words(2);
      seats_[rank] = {inbox.at(), words.at(0), words.at(1)};
      const Seat& right = seats_[(rank + 1) % kRanks];
      const Seat& left = seats_[(rank + kRanks - 1) % kRanks];
      meeting_.arrive_and_wait();
      unsigned sent = 0;
      for (int round = 1; round <= rounds_; ++round) {
        std::vector<float> values(kRanks * kChunk), sums(kRanks * kChunk);
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<float>(rank + i % 7) + static_cast<float>(round);
        EXPECT_CUDA_OK(cuMemcpyHtoDAsync_v2(data.at(), values.data(), data.bytes(), stream));
        for (unsigned step = 0; step < 2 * (kRanks - 1); ++step) {
          const std::size_t out = (rank + 2 * kRanks - step) % kRanks * kChunk;
          const std::size_t in = (rank + 2 * kRanks - step - 1) % kRanks * kChunk;
          // The inbox of the right neighbour is free once it has read what came before.
          EXPECT_CUDA_OK(
              cuStreamWaitValue32_v2(stream, words.at(1), sent, CU_STREAM_WAIT_VALUE_GEQ));
          EXPECT_CUDA_OK(
              cuMemcpyDtoDAsync_v2(right.inbox, data.at(out), kChunk * sizeof(float), stream));
          EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, right.arrived, ++sent, 0));
          EXPECT_CUDA_OK(
              cuStreamWaitValue32_v2(stream, words.at(0), sent, CU_STREAM_WAIT_VALUE_GEQ));
          if (step < kRanks - 1) {
            AddFloats params{data.pointer() + in, inbox.pointer(), kChunk};
            void* pointers[] = {&params};
            EXPECT_CUDA_OK(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, pointers, nullptr));
          } else {
            EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(data.at(in), inbox.at(), inbox.bytes(), stream));
          }
          EXPECT_CUDA_OK(cuStreamWriteValue32_v2(stream, left.freed, sent, 0));
        }
        EXPECT_CUDA_OK(cuMemcpyDtoHAsync_v2(sums.data(), data.at(), data.bytes(), stream));
        stream.synchronize();
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<float>(kRanks * (i % 7 + static_cast<unsigned>(round)) + 6);
        }
        EXPECT_TRUE(sums == values) << "rank " << rank << ", round " << round;
      }
      meeting_.arrive_and_wait();  // nobody writes into what is freed now
    }
    EXPECT_CUDA_OK(cuModuleUnload(module));
  }

  const int rounds_;
  std::array<Seat, kRanks> seats_;
  std::barrier<> meeting_{kRanks};
};

TEST(EmulatedRing, SumsOnEveryRank) {
  if (!is_emulated()) GTEST_SKIP() << "a real driver cannot load the kernel";
  const Ring ring(20);
}

}  // namespace
}  // namespace emulated_ring_test
