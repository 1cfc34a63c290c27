// SPDX-License-Identifier: Apache-2.0
// Coll-perf's oracle against reductions done in the element type itself, in several orders.
#include "coll_perf/oracle/coll_perf_oracle.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "coll_perf/oracle/coll_perf_element.hpp"

namespace perf {
namespace {

constexpr std::size_t kIndices = 5000;  // beyond one period

/// One addition, product… with the result rounded to the element type, as any library must.
Value combine(coll_dtype_t type, coll_op_t op, Value a, Value b) {
  const long double x = a.real(), y = b.real();
  const auto i = static_cast<long long>(x), j = static_cast<long long>(y);
  const bool p = x != 0, q = y != 0;
  Value result = a + b;
  if (op == COLL_PROD) result = a * b;
  if (op == COLL_MIN) result = std::min(x, y);
  if (op == COLL_MAX) result = std::max(x, y);
  if (op == COLL_BAND) result = static_cast<long double>(i & j);
  if (op == COLL_BOR) result = static_cast<long double>(i | j);
  if (op == COLL_BXOR) result = static_cast<long double>(i ^ j);
  if (op == COLL_LAND) result = p && q ? 1 : 0;
  if (op == COLL_LOR || (op == COLL_SUM && type == COLL_BOOL)) result = p || q ? 1 : 0;
  if (op == COLL_LXOR) result = p != q ? 1 : 0;
  unsigned char bytes[16];
  encode(type, result, bytes);
  const Value rounded = decode(type, bytes);
  EXPECT_EQ(rounded, result) << "an inexact partial result for " << dtype_name(type);
  return rounded;
}

TEST(Oracle, EveryPartialResultIsExactInEveryOrder) {
  for (int type = 0; type < COLL_DTYPE_COUNT; ++type)
    for (coll_op_t op : {COLL_SUM, COLL_PROD, COLL_MIN, COLL_MAX, COLL_BAND, COLL_BOR, COLL_BXOR,
                         COLL_LAND, COLL_LOR, COLL_LXOR})
      for (int ranks : {1, 2, 3, 4, 7, 16, 65, 300}) {
        const auto dtype = static_cast<coll_dtype_t>(type);
        if (!has_meaning(op, dtype)) continue;
        const Oracle oracle(dtype, op, true, ranks, 1);
        for (std::size_t i = 0; i<kIndices; i += ranks> 16 ? 577 : 41) {
          Value up = oracle.value(0, i);
          for (int r = 1; r < ranks; ++r) up = combine(dtype, op, up, oracle.value(r, i));
          Value down = oracle.value(ranks - 1, i);
          for (int r = ranks - 2; r >= 0; --r) down = combine(dtype, op, oracle.value(r, i), down);
          ASSERT_EQ(up, oracle.reduced(i)) << dtype_name(dtype) << ' ' << redop_name(op);
          ASSERT_EQ(down, oracle.reduced(i)) << dtype_name(dtype) << ' ' << redop_name(op);
        }
      }
}

TEST(Oracle, AverageIsTheSumDividedOnce) {
  const Oracle floats(COLL_FLOAT32, COLL_AVG, true, 3, 1);
  const Oracle integers(COLL_INT32, COLL_AVG, true, 3, 1);
  for (std::size_t i = 0; i < 100; ++i) {
    float sum = 0;
    long whole = 0;
    for (int r = 0; r < 3; ++r) {
      sum += static_cast<float>(floats.value(r, i).real());
      whole += static_cast<long>(integers.value(r, i).real());
    }
    float average = 0;
    encode(COLL_FLOAT32, floats.reduced(i), &average);
    EXPECT_EQ(average, sum / 3);
    EXPECT_EQ(static_cast<long>(integers.reduced(i).real()), whole / 3);
  }
}

TEST(Oracle, ALostOrDoubledRankChangesMostElements) {
  for (int type = 0; type < COLL_DTYPE_COUNT; ++type)
    for (int ranks : {2, 4, 64}) {
      const Oracle oracle(static_cast<coll_dtype_t>(type), COLL_SUM, true, ranks, 0);
      // Few ranks at a time give something to an 8-bit float: it has no room for the sum of more.
      const bool short_of_room = type == COLL_FLOAT8_E4M3 || type == COLL_FLOAT8_E5M2;
      int least = short_of_room && ranks > 16 ? 20 : 60;
      if (type == COLL_BOOL) {  // true on one rank on average
        if (ranks > 16) continue;
        least = 30;
      }
      for (int lost = 0; lost < ranks; ++lost) {
        int changed = 0;
        for (std::size_t i = 0; i < 200; ++i) changed += oracle.value(lost, i) != Value(0) ? 1 : 0;
        EXPECT_GT(changed, least) << dtype_name(static_cast<coll_dtype_t>(type)) << ' ' << lost;
      }
    }
}

TEST(Oracle, CountsWrongElementsOneByOne) {
  Oracle oracle(COLL_FLOAT32, COLL_SUM, true, 2, 0);
  const std::vector<Segment> segments{{kReduced, 3, 10000}};
  std::vector<float> data(10000);
  oracle.fill(segments, data.data());
  EXPECT_EQ(oracle.wrong(segments, data.data()), 0U);
  data[7] += 1;
  data[9999] -= 1;
  EXPECT_EQ(oracle.wrong(segments, data.data()), 2U);
  data[5000] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(oracle.wrong(segments, data.data()), 3U);
}

TEST(Oracle, NaNIsNeverRightButNegativeZeroIs) {
  for (coll_dtype_t type : {COLL_FLOAT16, COLL_BFLOAT16, COLL_FLOAT32, COLL_FLOAT64,
                            COLL_FLOAT8_E4M3, COLL_FLOAT8_E5M2}) {
    Oracle oracle(type, COLL_SUM, true, 1, 0);
    const std::size_t width = dtype_bytes(type);
    std::size_t zero = 0;
    while (oracle.value(0, zero) != Value(0)) ++zero;
    const std::vector<Segment> segments{{0, zero, 1}};
    unsigned char element[8];
    encode(type, -0.0L, element);
    EXPECT_EQ(oracle.wrong(segments, element), 0U) << dtype_name(type);
    std::memset(element, 0xff, width);
    EXPECT_EQ(oracle.wrong(segments, element), 1U) << dtype_name(type);
  }
}

TEST(Oracle, ASpoiledBufferIsWrongEverywhere) {
  for (int type = 0; type < COLL_DTYPE_COUNT; ++type)
    for (int op = 0; op < COLL_OP_COUNT; ++op) {
      const auto dtype = static_cast<coll_dtype_t>(type);
      if (!has_meaning(static_cast<coll_op_t>(op), dtype)) continue;
      Oracle oracle(dtype, static_cast<coll_op_t>(op), true, 4, 0);
      const std::vector<Segment> segments{{kReduced, 0, 4500}, {2, 17, 100}};
      std::vector<unsigned char> data(4600 * dtype_bytes(dtype));
      oracle.spoil(segments, data.data());
      EXPECT_EQ(oracle.wrong(segments, data.data()), 4600U) << dtype_name(dtype);
    }
}

/// Ands of which none is false, or ors of which all are, would hide the loss of a rank.
TEST(Oracle, BitsAndTruthTakeBothValues) {
  for (int type = 0; type < COLL_DTYPE_COUNT; ++type)
    for (const coll_op_t op : {COLL_LAND, COLL_LOR, COLL_LXOR, COLL_BAND, COLL_BOR, COLL_BXOR})
      for (const int ranks : {2, 3}) {
        const auto dtype = static_cast<coll_dtype_t>(type);
        if (!has_meaning(op, dtype)) continue;
        const Oracle oracle(dtype, op, true, ranks, 0);
        int matters = 0;
        for (std::size_t i = 0; i < 200; ++i) {
          Value without = oracle.value(1, i);
          for (int r = 2; r < ranks; ++r) without = combine(dtype, op, without, oracle.value(r, i));
          const Value all = combine(dtype, op, without, oracle.value(0, i));
          const bool bitwise = op == COLL_BAND || op == COLL_BOR || op == COLL_BXOR;
          const bool changed =
              bitwise ? all != without : (all == Value(0)) != (without == Value(0));
          matters += changed ? 1 : 0;
        }
        EXPECT_GT(matters, 20) << dtype_name(dtype) << ' ' << redop_name(op);
      }
}

TEST(Oracle, AByteThatIsNoBoolIsWrong) {
  Oracle oracle(COLL_BOOL, COLL_LOR, true, 2, 0);
  std::size_t truth = 0;
  while (oracle.value(0, truth) != Value(1)) ++truth;
  const std::vector<Segment> segments{{0, truth, 1}};
  unsigned char element = 1;
  EXPECT_EQ(oracle.wrong(segments, &element), 0U);
  element = 2;
  EXPECT_EQ(oracle.wrong(segments, &element), 1U);
}

TEST(Oracle, SegmentsFollowTheOperations) {
  const auto blocks = received(Operation::all_to_all, 1, 3, 0, 5);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[2].source, 2);
  EXPECT_EQ(blocks[2].first, 5U);  // block 1 of what rank 2 sends
  EXPECT_EQ(elements(sent(Operation::all_to_all, 1, 3, 0, 5)), 15U);
  EXPECT_EQ(received(Operation::reduce_scatter, 2, 3, 0, 5).at(0).first, 10U);
  EXPECT_TRUE(received(Operation::reduce, 1, 3, 0, 5).empty());
  EXPECT_TRUE(received(Operation::gather, 1, 3, 0, 5).empty());
  EXPECT_TRUE(sent(Operation::scatter, 1, 3, 0, 5).empty());
  EXPECT_EQ(received(Operation::scatter, 1, 3, 2, 5).at(0).source, 2);
  EXPECT_TRUE(received(Operation::sendrecv, 2, 3, 0, 5).empty());  // it has no partner
  EXPECT_EQ(received(Operation::sendrecv, 1, 3, 0, 5).at(0).source, 0);
  EXPECT_EQ(received(Operation::sendrecv_ring, 0, 3, 0, 5).at(0).source, 2);
  EXPECT_EQ(received(Operation::sendrecv_ring, 2, 3, 0, 5).at(0).source, 1);
  EXPECT_EQ(elements(sent(Operation::sendrecv_ring, 1, 3, 0, 5)), 5U);
}

TEST(Element, SmallFloatsRoundToNearestEven) {
  auto bits = [](coll_dtype_t type, long double value) {
    std::uint16_t out = 0;
    encode(type, value, &out);
    return out;
  };
  EXPECT_EQ(bits(COLL_FLOAT16, 1), 0x3c00);
  EXPECT_EQ(bits(COLL_FLOAT16, -2), 0xc000);
  EXPECT_EQ(bits(COLL_FLOAT16, 65504), 0x7bff);
  EXPECT_EQ(bits(COLL_FLOAT16, 65520), 0x7c00);  // halfway to what would be 65536
  EXPECT_EQ(bits(COLL_FLOAT16, std::ldexp(1.0L, -24)), 0x0001);
  EXPECT_EQ(bits(COLL_FLOAT16, std::ldexp(1.0L, -14)), 0x0400);
  EXPECT_EQ(bits(COLL_FLOAT16, 2049), 0x6800);  // a tie: down to even
  EXPECT_EQ(bits(COLL_FLOAT16, 2051), 0x6802);  // a tie: up to even
  EXPECT_EQ(bits(COLL_BFLOAT16, 1), 0x3f80);
  EXPECT_EQ(bits(COLL_BFLOAT16, 257), 0x4380);
  EXPECT_EQ(bits(COLL_BFLOAT16, 1e39L), 0x7f80);
  EXPECT_EQ(bits(COLL_FLOAT8_E4M3, 1), 0x38);
  EXPECT_EQ(bits(COLL_FLOAT8_E4M3, -448), 0xfe);
  EXPECT_EQ(bits(COLL_FLOAT8_E4M3, 1e9L), 0x7e);  // no infinity to overflow to
  EXPECT_EQ(bits(COLL_FLOAT8_E4M3, std::ldexp(1.0L, -9)), 0x01);
  EXPECT_EQ(bits(COLL_FLOAT8_E4M3, 17), 0x58);  // a tie: down to even
  EXPECT_EQ(bits(COLL_FLOAT8_E4M3, 19), 0x5a);  // a tie: up to even
  EXPECT_EQ(bits(COLL_FLOAT8_E5M2, 1), 0x3c);
  EXPECT_EQ(bits(COLL_FLOAT8_E5M2, 57344), 0x7b);
  EXPECT_EQ(bits(COLL_FLOAT8_E5M2, 61440), 0x7c);  // halfway to what would be 65536
  EXPECT_EQ(bits(COLL_FLOAT8_E5M2, std::ldexp(1.0L, -16)), 0x01);
}

TEST(Element, EverySmallFloatSurvivesDecodingAndEncoding) {
  for (coll_dtype_t type : {COLL_FLOAT16, COLL_BFLOAT16, COLL_FLOAT8_E4M3, COLL_FLOAT8_E5M2})
    for (unsigned bits = 0; bits < 1U << (8 * dtype_bytes(type)); ++bits) {
      const auto before = static_cast<std::uint16_t>(bits);
      const long double value = decode(type, &before).real();
      std::uint16_t after = 0;
      encode(type, value, &after);
      if (std::isnan(value))
        ASSERT_TRUE(std::isnan(decode(type, &after).real()));
      else
        ASSERT_EQ(after, before);
    }
}

}  // namespace
}  // namespace perf
