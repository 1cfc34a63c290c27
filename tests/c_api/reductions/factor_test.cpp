// SPDX-License-Identifier: Apache-2.0
// Sums whose inputs are multiplied first.
#include <collectives/collectives.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "communicator/rank_processes.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace {

template <class T>
coll_call_t sum(coll_operation_t operation, const std::vector<T>& in, std::vector<T>& out,
                std::size_t count, coll_dtype_t type, const T* factor) {
  coll_call_t call = asked(operation, count, type);
  call.send = in.data();
  call.recv = out.data();
  call.factor = factor;
  return call;
}

coll_status_t run(const coll_call_t& call, coll_comm_t comm) {
  coll_work_t work = nullptr;
  const coll_status_t refused = coll_start(&call, comm, nullptr, &work);
  return refused != COLL_SUCCESS ? refused : finish(work);
}

/// Small integers, so that products and sums are exact in every type.
template <class T>
std::vector<T> drawn(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(static_cast<int>(random() % 5));
  return values;
}

template <class T>
void check_all(coll_dtype_t type, std::uint64_t seed) {
  constexpr int kRanks = 3;
  constexpr std::size_t kLengths[] = {0, 1, 700, 5003};
  run_ranks(kRanks, [&](coll_comm_t comm, int rank) {
    for (const std::size_t count : kLengths) {
      // What every rank has, and each rank's factor.
      std::vector<std::vector<T>> inputs;
      for (int each = 0; each < kRanks; ++each) {
        inputs.push_back(drawn<T>(count * kRanks, seed + static_cast<std::uint64_t>(each)));
      }
      const auto factor_of = [](int each) { return static_cast<T>(each + 2); };
      std::vector<T> expected(count * kRanks);
      for (int each = 0; each < kRanks; ++each) {
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] = static_cast<T>(
              expected[i] +
              static_cast<T>(factor_of(each) * inputs[static_cast<std::size_t>(each)][i]));
        }
      }
      const T factor = factor_of(rank);
      const std::vector<T>& mine = inputs[static_cast<std::size_t>(rank)];
      std::vector<T> in = mine;
      std::vector<T> out(in.size());
      EXPECT_TRUE(ok(run(sum(COLL_ALL_REDUCE, in, out, in.size(), type, &factor), comm)));
      EXPECT_EQ(out, expected);
      EXPECT_EQ(in, mine) << "the input stays";
      EXPECT_TRUE(ok(run(sum(COLL_ALL_REDUCE, in, in, in.size(), type, &factor), comm)));
      EXPECT_EQ(in, expected) << "in place";
      in = mine;
      out.assign(in.size(), T(1));
      coll_call_t reduce = sum(COLL_REDUCE, in, out, in.size(), type, &factor);
      reduce.root = 1;
      EXPECT_TRUE(ok(run(reduce, comm)));
      EXPECT_EQ(out, rank == 1 ? expected : std::vector<T>(in.size(), T(1)));
      EXPECT_EQ(in, mine);
      out.resize(count);
      const auto block = static_cast<std::ptrdiff_t>(count);
      const auto part = expected.begin() + rank * block;
      EXPECT_TRUE(ok(run(sum(COLL_REDUCE_SCATTER, in, out, count, type, &factor), comm)));
      EXPECT_EQ(out, std::vector<T>(part, part + block));
      EXPECT_EQ(in, mine);
      // Blocks of other lengths, the first one behind a hole.
      const std::vector<std::size_t> counts{count / 2, count - count / 2, count};
      const std::vector<std::size_t> displs{count, count + counts[0], 2 * count};
      const auto own = static_cast<std::size_t>(rank);
      coll_call_t unequal = sum(COLL_REDUCE_SCATTER, in, out, 0, type, &factor);
      unequal.unequal = 1;
      unequal.send_counts = counts.data();
      unequal.send_displs = displs.data();
      EXPECT_TRUE(ok(run(unequal, comm)));
      for (std::size_t i = 0; i < counts[own]; ++i) EXPECT_EQ(out[i], expected[displs[own] + i]);
    }
  });
}

TEST(Factor, EveryOperationAndKindOfType) {
  const std::uint64_t seed = coll::test::test_seed();
  check_all<std::int8_t>(COLL_INT8, seed);
  check_all<std::uint16_t>(COLL_UINT16, seed + 10);
  check_all<std::int64_t>(COLL_INT64, seed + 20);
  check_all<float>(COLL_FLOAT32, seed + 30);
  check_all<double>(COLL_FLOAT64, seed + 40);
  check_all<std::complex<double>>(COLL_COMPLEX128, seed + 50);
}

/// Each product is rounded to the type, then they are summed.
TEST(Factor, ProductsAreRoundedOnce) {
  run_ranks(2, [](coll_comm_t comm, int) {
    const float third = 1.0F / 3.0F;
    const std::vector<float> in{3.0F, 1e-3F, 16777217.0F, INFINITY, NAN};
    std::vector<float> out(in.size());
    EXPECT_TRUE(ok(run(sum(COLL_ALL_REDUCE, in, out, in.size(), COLL_FLOAT32, &third), comm)));
    for (std::size_t i = 0; i < in.size(); ++i) {
      const volatile float product = third * in[i];
      const float twice = product + product;
      if (std::isnan(twice)) {
        EXPECT_TRUE(std::isnan(out[i]));
      } else {
        EXPECT_EQ(out[i], twice);
      }
    }
  });
}

/// bfloat16: 1.5 and 0.5.
TEST(Factor, OfSmallFloats) {
  run_ranks(2, [](coll_comm_t comm, int) {
    const std::uint16_t half = 0x3f00;
    const std::vector<std::uint16_t> in(3000, 0x3fc0);
    std::vector<std::uint16_t> out(in.size());
    EXPECT_TRUE(ok(run(sum(COLL_ALL_REDUCE, in, out, in.size(), COLL_BFLOAT16, &half), comm)));
    EXPECT_EQ(out, in) << "0.75 twice";
  });
}

/// A late factor is what an earlier operation of the stream leaves; another one is read at once.
TEST(Factor, ReadNowOrWhenTheOperationBegins) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    coll_stream_t stream = make_stream();
    const Values in(100, 1);
    Values now(100), late(100);
    std::int64_t factor = 5;
    Values made{rank == 0 ? 30 : 12};
    coll_call_t call = sum(COLL_ALL_REDUCE, in, now, in.size(), COLL_INT64, &factor);
    EXPECT_TRUE(ok(all_reduce(made, made, comm, stream)));
    EXPECT_TRUE(ok(coll_start(&call, comm, stream, nullptr)));
    factor = 0;
    call.recv = late.data();
    call.factor = made.data();
    call.factor_late = 1;
    EXPECT_TRUE(ok(coll_start(&call, comm, stream, nullptr)));
    EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    EXPECT_EQ(now, Values(100, 10));
    EXPECT_EQ(late, Values(100, 84));
  });
}

TEST(Factor, InAGroup) {
  run_ranks(2, [](coll_comm_t comm, int) {
    const Values in(10, 1);
    Values first(10), second(10);
    const std::int64_t two = 2, three = 3;
    const coll_call_t a = sum(COLL_ALL_REDUCE, in, first, in.size(), COLL_INT64, &two);
    const coll_call_t b = sum(COLL_ALL_REDUCE, in, second, in.size(), COLL_INT64, &three);
    EXPECT_TRUE(ok(coll_group_start()));
    coll_work_t works[] = {start(a, comm), start(b, comm)};
    EXPECT_TRUE(ok(coll_group_end()));
    for (coll_work_t work : works) EXPECT_TRUE(ok(finish(work)));
    EXPECT_EQ(first, Values(10, 4));
    EXPECT_EQ(second, Values(10, 6));
  });
}

/// What lies between the blocks is not even read: a page that nobody may read lies there.
TEST(Factor, HolesAreLeftAlone) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  run_ranks(2, [page](coll_comm_t comm, int rank) {
    void* const memory =
        mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* const in = static_cast<std::int64_t*>(memory);
    const std::size_t row = page / sizeof *in;
    in[0] = 7;
    in[2 * row] = 10;
    ASSERT_EQ(mprotect(in + row, page, PROT_NONE), 0);
    const std::size_t counts[] = {1, 1}, displs[] = {0, 2 * row};
    const std::int64_t factor = 3;
    std::int64_t out = 0;
    coll_call_t call = COLL_CALL_INIT;
    call.operation = COLL_REDUCE_SCATTER;
    call.send = in;
    call.recv = &out;
    call.type = COLL_INT64;
    call.factor = &factor;
    call.unequal = 1;
    call.send_counts = counts;
    call.send_displs = displs;
    EXPECT_TRUE(ok(run(call, comm)));
    EXPECT_EQ(out, rank == 0 ? 42 : 60);
    munmap(memory, 3 * page);
  });
}

TEST(Factor, WhatHasNoMeaningIsRefused) {
  run_ranks(1, [](coll_comm_t comm, int) {
    std::vector<std::uint8_t> data(4);
    const std::uint8_t factor = 1;
    coll_call_t call = sum(COLL_ALL_REDUCE, data, data, 4, COLL_BOOL, &factor);
    EXPECT_FALSE(wrong(0, "bool", run(call, comm), COLL_INVALID_ARGUMENT, "bool has no factors"));
    call.type = COLL_UINT8;
    call.op = COLL_MAX;
    EXPECT_FALSE(wrong(0, "max", run(call, comm), COLL_INVALID_ARGUMENT, "belongs to a sum"));
    call.type = static_cast<coll_dtype_t>(99);
    call.op = COLL_SUM;
    EXPECT_FALSE(wrong(0, "type", run(call, comm), COLL_INVALID_ARGUMENT, "unknown dtype"));
    const std::uint8_t three = 3;
    data.assign(4, 5);
    call = sum(COLL_ALL_REDUCE, data, data, 4, COLL_UINT8, &three);
    EXPECT_TRUE(ok(run(call, comm)));
    EXPECT_EQ(data, std::vector<std::uint8_t>(4, 15)) << "a single rank has a factor too";
    call.operation = COLL_BROADCAST;
    EXPECT_TRUE(ok(run(call, comm))) << "it has none, whatever the member says";
  });
}

}  // namespace
}  // namespace collectives::testing
