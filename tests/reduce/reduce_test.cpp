// SPDX-License-Identifier: Apache-2.0
// Every op, dtype, form and instruction set gives the oracle's bits.
#include <gtest/gtest.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "reduce/isa.hpp"
#include "reduce_data.hpp"
#include "reduce_oracle.hpp"
#include "test_seed.hpp"

namespace coll::reduce {
namespace {

using namespace coll::test;

struct Case {
  const Table* table;
  ReduceOp op;
  DataType type;
  bool finish;
  Store store;
  std::string text(std::size_t count) const {
    return std::string(table->name) + " " + std::string(name_of(op)) + " " +
           std::string(name_of(type)) + (finish ? " finish" : " combine") +
           (store == Store::streaming ? " streaming" : " cached") + " x" + std::to_string(count);
  }
};

/// What each element of a pass must become. A complex number is two elements, its parts.
std::vector<Element> expected_of(const Case& c, std::size_t ranks, const std::vector<Element>& a,
                                 const std::vector<Element>& b) {
  std::vector<Element> want(a.size());
  if (is_complex(c.type)) {
    for (std::size_t i = 0; i < a.size(); i += 2) {
      const ComplexElement result =
          expected_complex(c.op, c.type, c.finish, ranks, {a[i], a[i + 1]}, {b[i], b[i + 1]});
      want[i] = result.real;
      want[i + 1] = result.imaginary;
    }
  } else {
    for (std::size_t i = 0; i < a.size(); ++i)
      want[i] = expected(c.op, c.type, c.finish, ranks, a[i], b[i]);
  }
  return want;
}

/// Runs the five arrangements of one case (out of place, on a, on b, two sinks, on a and b) and
/// compares bits. Half of the two sinks are equally aligned.
void check(const Case& c, std::size_t count, std::mt19937_64& random) {
  const std::size_t bytes = count * size_of(c.type);
  const std::size_t size = size_of(part_of(c.type)), parts = bytes / size;
  const std::size_t how = static_cast<std::size_t>(c.store);
  const std::size_t ranks = random() % 4 ? 1 + random() % 40 : 1 + random() % 100000;
  const Kernels& k =
      c.table->kernels[static_cast<std::size_t>(c.op)][static_cast<std::size_t>(c.type)];
  const auto address = [&] { return random() % 2 ? random() % 64 : random() % 64 / size * size; };
  for (int arrangement = 0; arrangement < 5; ++arrangement) {
    const std::size_t first = address(), second = random() % 2 ? first : address();
    Buffer a(bytes, first), b(bytes, second), out(bytes, first), out2(bytes, second);
    std::vector<Element> x(parts), y(parts);
    for (std::size_t i = 0; i < parts; ++i) {
      a.set(i, size, x[i] = any_element(part_of(c.type), random));
      b.set(i, size, y[i] = any_element(part_of(c.type), random));
    }
    const std::vector<Element> want = expected_of(c, ranks, x, y);
    const bool both = arrangement >= 3;
    Buffer& sink = arrangement == 1 || arrangement == 4 ? a : arrangement == 2 ? b : out;
    Buffer& sink2 = arrangement == 4 ? b : out2;
    if (both)
      (c.finish ? k.finish_both : k.combine_both)[how](sink.data(), sink2.data(), a.data(),
                                                       b.data(), count, ranks);
    else
      (c.finish ? k.finish : k.combine)[how](sink.data(), a.data(), b.data(), count, ranks);
    for (std::size_t i = 0; i < parts; ++i) {
      ASSERT_EQ(sink.get(i, size), want[i]) << c.text(count) << " arrangement " << arrangement
                                            << " ranks " << ranks << " element " << i << std::hex;
      if (both) {
        ASSERT_EQ(sink2.get(i, size), want[i])
            << c.text(count) << " arrangement " << arrangement << " out2, element " << i;
      }
    }
    for (Buffer* buffer : {&a, &b, &out, &out2})
      ASSERT_TRUE(buffer->guards_intact()) << c.text(count) << " wrote outside";
  }
}

template <class F>
void for_each_case(F f) {
  for (const Table* table : tables())
    for (int op = 0; op < kReduceOps; ++op)
      for (int type = 0; type < kDataTypes; ++type)
        for (const bool finish : {false, true})
          for (const Store store : {Store::cached, Store::streaming})
            if (has_meaning(static_cast<ReduceOp>(op), static_cast<DataType>(type)))
              f(Case{table, static_cast<ReduceOp>(op), static_cast<DataType>(type), finish, store});
}

TEST(Reduce, APassExistsWhereItHasAMeaning) {
  for (const Table* table : tables())
    for (int op = 0; op < kReduceOps; ++op)
      for (int type = 0; type < kDataTypes; ++type) {
        const auto o = static_cast<ReduceOp>(op);
        const auto t = static_cast<DataType>(type);
        const Kernels& k = table->kernels[op][type];
        for (const bool there :
             {k.combine[0] != nullptr, k.combine[1] != nullptr, k.combine_both[0] != nullptr,
              k.combine_both[1] != nullptr, k.finish[0] != nullptr, k.finish[1] != nullptr,
              k.finish_both[0] != nullptr, k.finish_both[1] != nullptr})
          EXPECT_EQ(there, has_meaning(o, t))
              << table->name << " " << name_of(o) << " " << name_of(t);
      }
}

TEST(Reduce, EveryTailAndAlignmentGivesTheOraclesBits) {
#ifdef TRY_LESS  // a third of them
  constexpr std::size_t kLongestStep[] = {5, 36};
#else
  constexpr std::size_t kLongestStep[] = {1, 12};
#endif
  std::mt19937_64 random(test_seed());
  for_each_case([&](const Case& c) {
    for (std::size_t count = 0; count <= 130 && !testing::Test::HasFatalFailure();
         count += 1 + random() % kLongestStep[count < 20 ? 0 : 1])
      check(c, count, random);
  });
}

TEST(Reduce, LongRunsGiveTheOraclesBits) {
#ifdef TRY_LESS
  constexpr std::size_t kLeast = 250;
#else
  constexpr std::size_t kLeast = 1000;
#endif
  std::mt19937_64 random(test_seed() + 1);
  for_each_case([&](const Case& c) {
    if (!testing::Test::HasFatalFailure()) check(c, kLeast + random() % kLeast, random);
  });
}

/// Without NaNs in the second operand too: a pass may take another way where it meets none.
TEST(Reduce, EverySixteenBitFloatIsConvertedRight) {
  std::mt19937_64 random(test_seed() + 2);
  const std::size_t count = 1 << 16;
  std::vector<std::uint16_t> a(count), b(count), out(count), out2(count);
  for (std::size_t i = 0; i < count; ++i) a[i] = static_cast<std::uint16_t>(i);
  for (const DataType type : {DataType::float16, DataType::bfloat16})
    for (const bool nans : {true, false}) {
      for (auto& element : b) do
          element = static_cast<std::uint16_t>(any_element(type, random));
        while (!nans && std::isnan(decode(format_of(type), element)));
      for (const ReduceOp op :
           {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg})
        for (const std::size_t ranks : {3u, 8u}) {
          std::vector<Element> want(count);
          for (std::size_t i = 0; i < count; ++i)
            want[i] = expected(op, type, true, ranks, a[i], b[i]);
          for (const Table* table : tables())
            for (const std::size_t how : {0u, 1u}) {
              const Kernels& k =
                  table->kernels[static_cast<std::size_t>(op)][static_cast<std::size_t>(type)];
              k.finish[how](out.data(), a.data(), b.data(), count, ranks);
              for (std::size_t i = 0; i < count; ++i)
                ASSERT_EQ(out[i], want[i]) << table->name << " " << name_of(op) << " "
                                           << name_of(type) << " " << a[i] << " " << b[i];
              k.finish_both[how](out.data(), out2.data(), b.data(), a.data(), count, ranks);
              ASSERT_EQ(out, out2) << table->name << " " << name_of(op) << " " << name_of(type);
              for (std::size_t i = 0; i < count; ++i)
                ASSERT_EQ(out[i], want[i]) << table->name << " both " << name_of(op) << " "
                                           << name_of(type) << " " << a[i] << " " << b[i];
            }
        }
    }
}

/// Runs the 256 x 256 pairs of 8-bit floats through the finishing pass of every instruction set.
template <class Oracle>
void check_all_pairs(ReduceOp op, DataType type, std::size_t ranks, Oracle oracle) {
  const std::size_t count = 1 << 16;
  std::vector<std::uint8_t> a(count), b(count), want(count), out(count);
  for (std::size_t i = 0; i < count; ++i) {
    a[i] = static_cast<std::uint8_t>(i >> 8);
    b[i] = static_cast<std::uint8_t>(i);
    want[i] = static_cast<std::uint8_t>(oracle(a[i], b[i]));
  }
  for (const Table* table : tables()) {
    table->kernels[static_cast<std::size_t>(op)][static_cast<std::size_t>(type)].finish[0](
        out.data(), a.data(), b.data(), count, ranks);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(+out[i], +want[i]) << table->name << " " << name_of(op) << " " << name_of(type)
                                   << " " << (i >> 8) << " " << i % 256 << " / " << ranks;
  }
}

TEST(Reduce, EveryPairOfEightBitFloats) {
  std::mt19937_64 random(test_seed() + 5);
  for (const DataType type : {DataType::float8_e4m3, DataType::float8_e5m2}) {
    const Format& f = format_of(type);
    // A double holds these exactly, so the oracle rounds once from the true result.
    check_all_pairs(ReduceOp::sum, type, 1,
                    [&](Element a, Element b) { return encode(f, decode(f, a) + decode(f, b)); });
    check_all_pairs(ReduceOp::prod, type, 1,
                    [&](Element a, Element b) { return encode(f, decode(f, a) * decode(f, b)); });
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::avg})
      for (int turn = 0; turn < (op == ReduceOp::avg ? 40 : 1); ++turn) {
        const std::size_t ranks =
            turn < 20 ? static_cast<std::size_t>(turn) + 1 : 1 + random() % 100000;
        check_all_pairs(op, type, ranks, [&](Element a, Element b) {
          return expected(op, type, true, ranks, a, b);
        });
      }
  }
}

TEST(Reduce, EightBitFloatsOverflowAsDocumented) {
  const auto sum = [](DataType type, std::uint8_t a, std::uint8_t b) {
    std::uint8_t out = 0;
    kernels(ReduceOp::sum, type).combine[0](&out, &a, &b, 1, 1);
    return +out;
  };
  EXPECT_EQ(sum(DataType::float8_e4m3, 0x7e, 0x7e), 0x7e);  // 448 + 448 = 448
  EXPECT_EQ(sum(DataType::float8_e4m3, 0xfe, 0xd8), 0xfe);  // -448 - 16
  EXPECT_EQ(sum(DataType::float8_e4m3, 0x7e, 0xff), 0x7f);  // NaN
  EXPECT_EQ(sum(DataType::float8_e5m2, 0x7b, 0x6c), 0x7c);  // 57344 + 4096: a tie, to even
  EXPECT_EQ(sum(DataType::float8_e5m2, 0x7b, 0x6b), 0x7b);  // 57344 + 3584
  EXPECT_EQ(sum(DataType::float8_e5m2, 0x7c, 0xfc), 0x7e);  // inf - inf
}

#if defined(__x86_64__)
TEST(Reduce, EightBitFloatsKeepDenormalsThatTheProgramFlushes) {
  const std::size_t count = 1 << 16;
  std::vector<std::uint8_t> a(count), b(count), kept(count), flushed(count);
  for (std::size_t i = 0; i < count; ++i) {
    a[i] = static_cast<std::uint8_t>(i >> 8);
    b[i] = static_cast<std::uint8_t>(i);
  }
  const unsigned before = _mm_getcsr();
  const unsigned flushing = before | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON;
  for (const Table* table : tables())
    for (const DataType type : {DataType::float8_e4m3, DataType::float8_e5m2})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::avg}) {
        const Combine pass =
            table->kernels[static_cast<std::size_t>(op)][static_cast<std::size_t>(type)].finish[0];
        pass(kept.data(), a.data(), b.data(), count, 3);
        _mm_setcsr(flushing);
        pass(flushed.data(), a.data(), b.data(), count, 3);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(before);
        EXPECT_EQ(kept, flushed) << table->name << " " << name_of(op) << " " << name_of(type);
        // The sticky flags of exceptions aside, the program finds what it set.
        const unsigned settings = ~static_cast<unsigned>(_MM_EXCEPT_MASK);
        EXPECT_EQ(after & settings, flushing & settings) << table->name;
      }
}
#endif

/// All quotients of 16-bit sums, for which f32 has to be exact.
TEST(Reduce, EveryAverageOfSixteenBitIntegersIsTruncated) {
  std::mt19937_64 random(test_seed() + 6);
  const std::size_t count = 1 << 16;
  std::vector<std::uint16_t> a(count), b(count), out(count);
  for (std::size_t i = 0; i < count; ++i) a[i] = static_cast<std::uint16_t>(i);
  for (const Table* table : tables())
    for (const DataType type : {DataType::int16, DataType::uint16})
      for (int turn = 0; turn < 40; ++turn) {
        const std::size_t ranks = turn < 10   ? static_cast<std::size_t>(turn) + 1
                                  : turn < 25 ? 1 + random() % 1000
                                              : 1 + random() % 100000;
        table->kernels[static_cast<std::size_t>(ReduceOp::avg)][static_cast<std::size_t>(type)]
            .finish[0](out.data(), a.data(), b.data(), count, ranks);
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(out[i], expected(ReduceOp::avg, type, true, ranks, a[i], 0))
              << table->name << " " << name_of(type) << " " << i << " / " << ranks;
      }
}

TEST(Reduce, TruthIsZeroOrOne) {
  const auto of = [](ReduceOp op, DataType type, std::uint64_t a, std::uint64_t b) {
    std::uint64_t out = 0;
    kernels(op, type).combine[0](&out, &a, &b, 1, 7);
    return out;
  };
  using enum ReduceOp;
  EXPECT_EQ(of(land, DataType::int32, 2, 4), 1U);  // no bit in common
  EXPECT_EQ(of(lor, DataType::uint64, 0, std::uint64_t{1} << 63), 1U);
  EXPECT_EQ(of(lxor, DataType::int16, 3, 5), 0U);
  EXPECT_EQ(of(land, DataType::float32, 0x7fc00000, 1), 0x3f800000U);    // NaN and a denormal
  EXPECT_EQ(of(lor, DataType::float64, std::uint64_t{1} << 63, 0), 0U);  // -0
  EXPECT_EQ(of(lor, DataType::bfloat16, 0x8000, 0x0001), 0x3f80U);
  EXPECT_EQ(of(sum, DataType::boolean, 1, 1), 1U);
  EXPECT_EQ(of(sum, DataType::boolean, 0x80, 0x80), 1U);  // as integers they would wrap to 0
  EXPECT_EQ(of(prod, DataType::boolean, 0x10, 0x10), 1U);
  EXPECT_EQ(of(min, DataType::boolean, 1, 2), 1U);
  EXPECT_EQ(of(max, DataType::boolean, 0, 2), 1U);
  EXPECT_EQ(of(band, DataType::boolean, 1, 2), 1U);
  EXPECT_EQ(of(bxor, DataType::boolean, 1, 2), 0U);
}

TEST(Reduce, OperandsCommuteBitByBit) {  // two ranks may compute a + b and b + a
  std::mt19937_64 random(test_seed() + 3);
  const std::size_t count = 4096;
  for_each_case([&](const Case& c) {
    const std::size_t bytes = count * size_of(c.type), size = size_of(part_of(c.type));
    std::vector<std::byte> a(bytes), b(bytes), ab(bytes), ba(bytes);
    for (std::size_t at = 0; at < bytes; at += size) {
      const Element x = any_element(part_of(c.type), random);
      const Element y = any_element(part_of(c.type), random);
      std::memcpy(&a[at], &x, size);
      std::memcpy(&b[at], &y, size);
    }
    const Kernels& k =
        c.table->kernels[static_cast<std::size_t>(c.op)][static_cast<std::size_t>(c.type)];
    const Combine f = (c.finish ? k.finish : k.combine)[static_cast<std::size_t>(c.store)];
    f(ab.data(), a.data(), b.data(), count, 7);
    f(ba.data(), b.data(), a.data(), count, 7);
    EXPECT_EQ(ab, ba) << c.text(count);
  });
}

TEST(Reduce, CopiesCopy) {
  std::mt19937_64 random(test_seed() + 4);
  for (const Table* table : tables())
    for (std::size_t bytes = 0; bytes < 5000; bytes += bytes < 300 ? 1 : 97)
      for (const std::size_t how : {0u, 1u}) {
        Buffer in(bytes, random() % 64), out(bytes, random() % 64);
        for (std::size_t i = 0; i < bytes; ++i) in.set(i, 1, random() & 0xff);
        table->copies.copy[how](out.data(), in.data(), bytes);
        ASSERT_EQ(0, std::memcmp(out.data(), in.data(), bytes)) << table->name << " " << bytes;
        ASSERT_TRUE(out.guards_intact()) << table->name << " " << bytes;
      }
}

TEST(Isa, TheBestIsUsedUnlessALowerOneIsAskedFor) {
  EXPECT_STREQ(table_for("").name, tables().front()->name);
  EXPECT_STREQ(table_for("no such set").name, tables().front()->name);
  for (const Table* table : tables()) EXPECT_EQ(&table_for(table->name), table);
}

TEST(Isa, TheKnobLowersIt) {
  const char* asked = std::getenv("COLL_ISA");
  EXPECT_EQ(instruction_set(), table_for(asked ? asked : "").name);
  const Table& table = table_for(instruction_set());
  EXPECT_EQ(&kernels(ReduceOp::max, DataType::int64), &table.kernels[3][6]);
  EXPECT_EQ(&copy_kernels(), &table.copies);
}

}  // namespace
}  // namespace coll::reduce
