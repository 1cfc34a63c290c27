// SPDX-License-Identifier: Apache-2.0
// Element types and reductions as users meet them: what works, what is refused, C++ types.
#include <gtest/gtest.h>

#include <collectives/collectives.hpp>
#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "c_api/api_ranks.hpp"

namespace {

using collectives::dtype_of;
using collectives::testing::run_ranks;

constexpr int kTypeCount = COLL_DTYPE_COUNT, kOpCount = COLL_OP_COUNT;
constexpr const char* kTypes[kTypeCount] = {
    "int8", "uint8", "int16", "uint16", "int32",  "uint32", "int64",     "uint64",    "f16",
    "bf16", "f32",   "f64",   "f8e4m3", "f8e5m2", "bool",   "complex64", "complex128"};
constexpr const char* kOps[kOpCount] = {"sum", "prod", "min",  "max", "avg", "band",
                                        "bor", "bxor", "land", "lor", "lxor"};

/// As the header says.
bool works(coll_op_t op, coll_dtype_t type) {
  const bool is_bool = type == COLL_BOOL;
  const bool is_complex = type == COLL_COMPLEX64 || type == COLL_COMPLEX128;
  const bool is_integer = type <= COLL_UINT64;
  if (op == COLL_BAND || op == COLL_BOR || op == COLL_BXOR) return is_integer || is_bool;
  if (is_complex) return op == COLL_SUM || op == COLL_PROD || op == COLL_AVG;
  return op != COLL_AVG || !is_bool;
}

TEST(Values, EveryReductionWorksOrIsRefusedWithAReason) {
  run_ranks(1, [](coll_comm_t comm, int) {
    alignas(16) unsigned char in[32] = {1}, out[32] = {};
    for (int i = 0; i < kOpCount * kTypeCount; ++i) {
      const auto op = static_cast<coll_op_t>(i / kTypeCount);
      const auto type = static_cast<coll_dtype_t>(i % kTypeCount);
      SCOPED_TRACE(std::string(kOps[op]) + " of " + kTypes[type]);
      const auto check = [&](coll_status_t status) {
        EXPECT_EQ(status, works(op, type) ? COLL_SUCCESS : COLL_INVALID_ARGUMENT);
        if (status == COLL_SUCCESS) return;
        const std::string text = coll_last_error();
        EXPECT_NE(text.find(std::string(kOps[op]) + " has no meaning for " + kTypes[type]),
                  std::string::npos)
            << text;
        const char* hint = type == COLL_BOOL        ? "bool has sum, max"
                           : type >= COLL_COMPLEX64 ? "sum, prod and avg"
                                                    : "unsigned integers";
        EXPECT_NE(text.find(hint), std::string::npos) << text;
      };
      check(coll_all_reduce(in, out, 1, type, op, comm, nullptr));
      check(coll_reduce(in, out, 1, type, op, 0, comm, nullptr));
      check(coll_reduce_scatter(in, out, 1, type, op, comm, nullptr));
      coll_call_t call = COLL_CALL_INIT;
      call.operation = COLL_ALL_REDUCE, call.op = op, call.type = type, call.count = 1;
      call.send = in, call.recv = out;
      coll_work_t work = nullptr;
      const coll_status_t started = coll_start(&call, comm, nullptr, &work);
      check(started);
      if (started == COLL_SUCCESS) {
        EXPECT_EQ(coll_work_wait(work, -1), COLL_SUCCESS) << coll_last_error();
        EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
      }
      ASSERT_EQ(coll_group_start(), COLL_SUCCESS);
      check(coll_all_reduce(in, out, 1, type, op, comm, nullptr));
      EXPECT_EQ(coll_group_end(), works(op, type) ? COLL_SUCCESS : COLL_INVALID_ARGUMENT);
      // What moves elements looks at no reduction.
      call.operation = COLL_BROADCAST;
      ASSERT_EQ(coll_start(&call, comm, nullptr, &work), COLL_SUCCESS) << coll_last_error();
      EXPECT_EQ(coll_work_wait(work, -1), COLL_SUCCESS) << coll_last_error();
      EXPECT_EQ(coll_work_free(work), COLL_SUCCESS);
    }
  });
}

TEST(Values, TypesHaveTheirSizes) {
  constexpr std::size_t kSizes[kTypeCount] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1, 1, 8, 16};
  for (int type = 0; type < kTypeCount; ++type)
    EXPECT_EQ(coll_dtype_size(static_cast<coll_dtype_t>(type)), kSizes[type]) << kTypes[type];
  EXPECT_EQ(coll_dtype_size(COLL_DTYPE_COUNT), 0U);
}

/// Another library's complex number.
struct OtherComplex {
  using value_type = double;
  double parts[2];
  [[nodiscard]] double real() const { return parts[0]; }
  [[nodiscard]] double imag() const { return parts[1]; }
};

static_assert(dtype_of<bool>() == COLL_BOOL);
static_assert(dtype_of<const char>() == (std::is_signed_v<char> ? COLL_INT8 : COLL_UINT8));
static_assert(dtype_of<std::int16_t>() == COLL_INT16 && dtype_of<std::uint16_t>() == COLL_UINT16);
static_assert(dtype_of<std::int32_t>() == COLL_INT32 && dtype_of<std::uint64_t>() == COLL_UINT64);
static_assert(dtype_of<std::complex<float>>() == COLL_COMPLEX64);
static_assert(dtype_of<const std::complex<double>>() == COLL_COMPLEX128);
static_assert(dtype_of<OtherComplex>() == COLL_COMPLEX128);
static_assert(dtype_of<collectives::Float16>() == COLL_FLOAT16);

template <class T>
std::vector<T> reduced(coll_comm_t comm, coll_op_t op, const std::vector<T>& in) {
  std::vector<T> out(in.size());
  EXPECT_EQ(coll_all_reduce(in.data(), out.data(), in.size(), dtype_of<T>(), op, comm, nullptr),
            COLL_SUCCESS)
      << coll_last_error();
  return out;
}

TEST(Values, ThreeRanksReduceBitsTruthAndComplexNumbers) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    using Bytes = std::vector<std::uint8_t>;
    const auto r = static_cast<std::uint16_t>(rank);
    const auto bools = [&](coll_op_t op, Bytes in) {
      Bytes out(in.size());
      EXPECT_EQ(coll_all_reduce(in.data(), out.data(), in.size(), COLL_BOOL, op, comm, nullptr),
                COLL_SUCCESS)
          << coll_last_error();
      return out;
    };
    // False everywhere, true on rank 1, true everywhere but on rank 1, true everywhere.
    const auto one = static_cast<std::uint8_t>(rank == 1),
               but = static_cast<std::uint8_t>(rank != 1);
    for (const coll_op_t op : {COLL_SUM, COLL_MAX, COLL_BOR, COLL_LOR})
      EXPECT_EQ(bools(op, {0, one, but, 1}), (Bytes{0, 1, 1, 1})) << kOps[op];
    for (const coll_op_t op : {COLL_PROD, COLL_MIN, COLL_BAND, COLL_LAND})
      EXPECT_EQ(bools(op, {0, one, but, 1}), (Bytes{0, 0, 0, 1})) << kOps[op];
    for (const coll_op_t op : {COLL_BXOR, COLL_LXOR})
      EXPECT_EQ(bools(op, {0, one, but, 1}), (Bytes{0, 1, 0, 1})) << kOps[op];

    using Shorts = std::vector<std::uint16_t>;
    const Shorts bit{static_cast<std::uint16_t>(1U << r), 0x8000};
    EXPECT_EQ(reduced(comm, COLL_BOR, bit), (Shorts{7, 0x8000}));
    EXPECT_EQ(reduced(comm, COLL_BAND, bit), (Shorts{0, 0x8000}));
    EXPECT_EQ(reduced(comm, COLL_BXOR, bit), (Shorts{7, 0x8000}));
    EXPECT_EQ(reduced(comm, COLL_LAND, bit), (Shorts{1, 1}));
    EXPECT_EQ(reduced(comm, COLL_LXOR, std::vector<float>{-2.5f, rank == 2 ? 0.0f : 3.0f}),
              (std::vector<float>{1, 0}));
    EXPECT_EQ(reduced(comm, COLL_AVG, std::vector<std::int16_t>{-5, static_cast<std::int16_t>(r)}),
              (std::vector<std::int16_t>{-5, 1}));

    using Numbers = std::vector<std::complex<double>>;
    const std::complex<double> z(rank + 1, 1);  // (1 + i)(2 + i)(3 + i) = 10i
    EXPECT_EQ(reduced(comm, COLL_PROD, Numbers{z}), (Numbers{{0, 10}}));
    EXPECT_EQ(reduced(comm, COLL_SUM, Numbers{z}), (Numbers{{6, 3}}));
    EXPECT_EQ(reduced(comm, COLL_AVG, Numbers{z}), (Numbers{{2, 1}}));
  });
}

}  // namespace
