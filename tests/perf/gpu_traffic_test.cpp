// SPDX-License-Identifier: Apache-2.0
// The bytes that operations must move in a GPU's memory, and what part of the limit a time is.
#include "gpu/gpu_traffic.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/gpu_copy_limit.hpp"

namespace perf {
namespace {

using Bytes = std::vector<std::uint64_t>;
constexpr std::uint64_t kBlock = 1000;

/// By GPU, of ranks 0 and 2 on GPU 0 and ranks 1, 3, 4 on GPU 1.
Bytes on_two(Operation operation, int root, bool in_place) {
  return gpu_traffic({operation, root, kBlock, in_place}, {0, 1, 0, 1, 1});
}

/// The formulas of the header, written out once more: n ranks, k of them here, r with the root.
std::uint64_t formula(Operation operation, std::uint64_t n, std::uint64_t k, std::uint64_t r,
                      bool in_place) {
  const std::uint64_t b = kBlock;
  switch (equal_blocks(operation)) {
    case Operation::all_reduce:
    case Operation::sendrecv_ring:
      return k * b + k * b;
    case Operation::reduce:
      return k * b + r * b;
    case Operation::broadcast:
      return in_place ? r * b + (k - r) * b : r * b + k * b;
    case Operation::all_gather:
      return in_place ? k * b + k * (n - 1) * b : k * b + k * n * b;
    case Operation::reduce_scatter:
      return k * n * b + k * b;
    case Operation::all_to_all:
      return k * n * b + k * n * b;
    case Operation::gather:
      return in_place ? (k - r) * b + r * (n - 1) * b : k * b + r * n * b;
    case Operation::scatter:
      return in_place ? r * (n - 1) * b + (k - r) * b : r * n * b + k * b;
    default:
      return 0;
  }
}

TEST(GpuTraffic, IsTheFormulaOfEachOperation) {
  int checked = 0;
  for (const Operation operation : all_operations()) {
    if (equal_blocks(operation) == Operation::sendrecv) continue;
    for (const int root : {0, 1, 4})
      for (const bool in_place : {false, true}) {
        if (in_place && !traits(operation).in_place) continue;
        SCOPED_TRACE(std::string(traits(operation).name) + ", root " + std::to_string(root) +
                     (in_place ? ", in place" : ""));
        const std::uint64_t here = root == 0 && traits(operation).rooted ? 1 : 0;
        const std::uint64_t there = root != 0 && traits(operation).rooted ? 1 : 0;
        EXPECT_EQ(on_two(operation, root, in_place),
                  (Bytes{formula(operation, 5, 2, here, in_place),
                         formula(operation, 5, 3, there, in_place)}));
        ++checked;
      }
  }
  EXPECT_EQ(checked, 3 * (11 * 2 + 4));
}

TEST(GpuTraffic, OfPairsIsHalfTheRoundTrip) {
  // Pairs (0, 1) and (2, 3); rank 4 is alone and sends nothing.
  EXPECT_EQ(on_two(Operation::sendrecv, 0, false), (Bytes{2000, 2000}));
  EXPECT_EQ(on_two(Operation::sendrecv_tagged, 0, false), (Bytes{2000, 2000}));
  EXPECT_EQ(gpu_traffic({Operation::sendrecv, 0, kBlock, false}, {0, 0}), Bytes{2000});
}

TEST(GpuTraffic, OfOneRankIsACopyOrNothing) {
  for (const Operation operation : all_operations()) {
    if (equal_blocks(operation) == Operation::sendrecv || operation == Operation::barrier) continue;
    EXPECT_EQ(gpu_traffic({operation, 0, kBlock, false}, {0}), Bytes{2000})
        << traits(operation).name;
    if (!traits(operation).in_place) continue;
    EXPECT_EQ(gpu_traffic({operation, 0, kBlock, true}, {0}), Bytes{0}) << traits(operation).name;
  }
}

TEST(GpuUse, IsOfTheGpuThatNeedsLongest) {
  const GpuCall call{Operation::all_reduce, 0, kBlock, false};
  // GPU 0 moves 4000 bytes, GPU 1 6000: at equal speeds GPU 1 needs longer, 60 ms of 120.
  GpuUse use = gpu_use(call, {0, 1, 0, 1, 1}, {1e5, 1e5}, 0.12);
  EXPECT_EQ(use.bytes, 6000U);
  EXPECT_DOUBLE_EQ(use.fraction, 0.5);
  // A slower GPU 0 needs 80 ms.
  use = gpu_use(call, {0, 1, 0, 1, 1}, {5e4, 1e5}, 0.16);
  EXPECT_EQ(use.bytes, 4000U);
  EXPECT_DOUBLE_EQ(use.fraction, 0.5);
}

TEST(GpuUse, OfNothingIsNothing) {
  const GpuUse barrier = gpu_use({Operation::barrier, 0, 0, false}, {0, 0}, {1e5}, 1e-3);
  EXPECT_EQ(barrier.bytes, 0U);
  EXPECT_EQ(barrier.fraction, 0);
  const GpuCall call{Operation::all_reduce, 0, kBlock, false};
  EXPECT_EQ(gpu_use(call, {0, 0}, {0.0}, 1e-3).fraction, 0) << "no limit was measured";
  EXPECT_EQ(gpu_use(call, {0, 0}, {1e5}, 0).fraction, 0);
}

TEST(CopySizes, HalveFromWhatHalfOfTheMemoryAllows) {
  constexpr std::size_t kMi = std::size_t{1} << 20;
  EXPECT_EQ(copy_sizes(80'000 * kMi), (std::vector{1024 * kMi, 512 * kMi, 256 * kMi}));
  EXPECT_EQ(copy_sizes(4096 * kMi), (std::vector{1024 * kMi, 512 * kMi, 256 * kMi}));
  EXPECT_EQ(copy_sizes(4096 * kMi - 1), (std::vector{512 * kMi, 256 * kMi, 128 * kMi}));
  EXPECT_EQ(copy_sizes(256 * kMi), (std::vector{64 * kMi, 32 * kMi, 16 * kMi}));
  EXPECT_EQ(copy_sizes(0), std::vector<std::size_t>{1});
}

TEST(GpuCopyLimit, IsTheBestSizes) {
  EXPECT_EQ(timed_copy(1000, 0.5).moved_per_s, 4000) << "read and written";
  EXPECT_EQ((GpuCopyLimit{{{4, 2e9}, {2, 3e9}, {1, 1e9}}}).moved_per_s(), 3e9);
  EXPECT_EQ(GpuCopyLimit{}.moved_per_s(), 0);
}

}  // namespace
}  // namespace perf
