// SPDX-License-Identifier: Apache-2.0
// The kernels of the device, run on the host, give the bits of the CPU's.
//
// Their twins are the same source compiled as C++ (tests/emulation/kernels). What they cannot show
// is what nvcc makes of it: the tests of the image read that, and a device's own tests.
#include "reduce/device/device_kernels.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "emulation/cuda/emulated_launch.hpp"
#include "reduce/device/reduce_arguments.hpp"
#include "reduce/reduce.hpp"
#include "reduce_data.hpp"
#include "reduce_oracle.hpp"
#include "test_seed.hpp"

namespace coll::reduce {
namespace {

using namespace coll::test;
using Bytes = std::vector<std::byte>;

/// A symbol of the library of twins; null if it has none of that name.
void* symbol(const std::string& name) {
  static void* const library = dlopen(DEVICE_KERNEL_TWINS, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return library == nullptr ? nullptr : dlsym(library, name.c_str());
}

struct Grid {
  unsigned blocks = 3, threads = 32;
};

template <class Arguments>
void launch(const std::string& name, const Arguments& arguments, Grid grid = {}) {
  auto* const kernel = reinterpret_cast<EmulatedKernel*>(symbol(name));
  ASSERT_NE(kernel, nullptr) << name;
  const EmulatedLaunch how{{grid.blocks, 1, 1}, {grid.threads, 1, 1}, 0};
  kernel(&arguments, &how);
}

struct Pass {
  ReduceOp op;
  DataType type;
  bool finish;
  std::string kernel() const { return device_kernel(op, type, finish); }
  std::size_t size() const { return size_of(type); }
  /// What the CPU makes of the same operands.
  Bytes expected(const Bytes& left, const Bytes& right, std::size_t ranks) const {
    Bytes out(left.size());
    const Kernels& k = kernels(op, type);
    (finish ? k.finish : k.combine)[0](out.data(), left.data(), right.data(), left.size() / size(),
                                       ranks);
    return out;
  }
};

/// Every pass, of types of `size` bytes (0: of all). Of all operations but avg the last pass is as
/// the others.
std::vector<Pass> passes(std::size_t size = 0) {
  std::vector<Pass> all;
  for (int op = 0; op < kReduceOps; ++op)
    for (int t = 0; t < kDataTypes; ++t) {
      const Pass pass{static_cast<ReduceOp>(op), static_cast<DataType>(t), true};
      if (has_meaning(pass.op, pass.type) && (size == 0 || size == pass.size()))
        all.push_back(pass);
    }
  return all;
}

std::vector<DataType> scaled_types() {
  std::vector<DataType> all;
  for (int t = 0; t < kDataTypes; ++t)
    if (static_cast<DataType>(t) != DataType::boolean) all.push_back(static_cast<DataType>(t));
  return all;
}

std::size_t any_ranks(std::mt19937_64& random) {
  return random() % 4 ? 1 + random() % 40 : 1 + random() % 100000;
}

/// Compares element by element, and says which is the first that differs.
void expect_same(const Pass& pass, const Bytes& left, const Bytes& right, const std::byte* got,
                 const Bytes& want, const std::string& note) {
  if (want.empty() || std::memcmp(got, want.data(), want.size()) == 0) return;
  const auto hex = [&](const std::byte* at) {
    std::string text;
    for (std::size_t i = pass.size(); i-- > 0;) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(at[i]));
      text += digits;
    }
    return text;
  };
  for (std::size_t at = 0; at < want.size(); at += pass.size())
    ASSERT_EQ(hex(got + at), hex(&want[at]))
        << pass.kernel() << " of " << hex(&left[at]) << " and " << hex(&right[at]) << ", element "
        << at / pass.size() << " of " << want.size() / pass.size() << " " << note;
}

/// One pass out of place, of memory that is aligned.
void check(const Pass& pass, const Bytes& left, const Bytes& right, std::size_t ranks,
           Grid grid = {}) {
  const Bytes want = pass.expected(left, right, ranks);
  Bytes into(left.size() + 1), copy(left.size() + 1);  // never without an address
  ReduceArguments arguments{into.data(), left.data(), right.data(), left.size() / pass.size(),
                            copy.data(), ranks};
  launch(pass.kernel(), arguments, grid);
  const std::string note = "ranks " + std::to_string(ranks);
  expect_same(pass, left, right, into.data(), want, note);
  expect_same(pass, left, right, copy.data(), want, note + " (copy)");
  EXPECT_EQ(into.back(), std::byte{}) << pass.kernel() << " wrote past the end";
}

TEST(DeviceKernels, EveryPassHasAKernel) {
  for (const Pass& pass : passes()) {
    for (const bool finish : {false, true})
      EXPECT_NE(symbol(device_kernel(pass.op, pass.type, finish)), nullptr) << pass.kernel();
    const auto* bytes = static_cast<std::size_t*>(symbol(pass.kernel() + "_params_bytes"));
    ASSERT_NE(bytes, nullptr) << pass.kernel();
    EXPECT_EQ(*bytes, sizeof(ReduceArguments));
  }
  for (const DataType type : scaled_types())
    EXPECT_NE(symbol(device_scale_kernel(type)), nullptr) << name_of(type);
  EXPECT_EQ(symbol("coll_min_complex64"), nullptr) << "no order, no kernel";
}

TEST(DeviceKernels, NamesAreTheOperationAndTheType) {
  EXPECT_EQ(device_kernel(ReduceOp::max, DataType::float8_e4m3, false), "coll_max_f8e4m3");
  EXPECT_EQ(device_kernel(ReduceOp::avg, DataType::int32, true), "coll_avg_int32");
  EXPECT_EQ(device_kernel(ReduceOp::avg, DataType::int32, false), "coll_sum_int32");
  EXPECT_EQ(device_scale_kernel(DataType::complex64), "coll_scale_complex64");
}

TEST(DeviceKernels, EveryPairOfEightBits) {
  std::mt19937_64 random(test_seed());
  Bytes left(1 << 16), right(1 << 16);
  for (std::size_t i = 0; i < left.size(); ++i) {
    left[i] = static_cast<std::byte>(i >> 8);
    right[i] = static_cast<std::byte>(i);
  }
  for (const Pass& pass : passes(1)) {
    const std::size_t turns = pass.op == ReduceOp::avg ? 24 : 1;
    for (std::size_t turn = 1; turn <= turns && !HasFatalFailure(); ++turn)
      check(pass, left, right, turn <= 20 ? turn : 1 + random() % 100000);
  }
}

TEST(DeviceKernels, EverySixteenBitsWithAnyOther) {
  std::mt19937_64 random(test_seed() + 1);
  for (const Pass& pass : passes(2))
    for (int turn = 0; turn < 4 && !HasFatalFailure(); ++turn) {
      Bytes left(2 << 16), right = any_elements(pass.type, 1 << 16, random);
      for (std::size_t i = 0; i < left.size() / 2; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        std::memcpy(&left[2 * i], &bits, 2);
      }
      if (turn % 2 == 1) left.swap(right);
      check(pass, left, right, any_ranks(random));
    }
}

TEST(DeviceKernels, AnyElementsOfEveryType) {
  std::mt19937_64 random(test_seed() + 2);
  for (const Pass& pass : passes())
    for (int turn = 0; turn < 4 && !HasFatalFailure(); ++turn) {
      const std::size_t count = 10000 + random() % 1000;
      const Bytes left = any_elements(pass.type, count, random);
      const Bytes right = any_elements(pass.type, count, random);
      check(pass, left, right, any_ranks(random));
    }
}

TEST(DeviceKernels, AnyCountOnAnyGrid) {
  std::mt19937_64 random(test_seed() + 3);
  for (const Pass& pass : passes())
    for (const std::size_t count :
         std::initializer_list<std::size_t>{0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 255, 1001, 3000})
      for (const Grid grid : {Grid{1, 1}, Grid{1, 32}, Grid{5, 3}, Grid{7, 64}}) {
        if (HasFatalFailure()) return;
        check(pass, any_elements(pass.type, count, random), any_elements(pass.type, count, random),
              any_ranks(random), grid);
      }
}

/// `bytes` at a multiple of 16 and `offset` more, between guards.
class Placed {
 public:
  Placed(const Bytes& content, std::size_t offset) : bytes_(content.size()) {
    storage_.assign(bytes_ + 64, kGuardByte);
    const auto base = reinterpret_cast<std::uintptr_t>(storage_.data());
    start_ = 16 + (16 - base % 16) % 16 + offset;
    std::copy(content.begin(), content.end(), begin());
  }
  std::byte* data() { return storage_.data() + start_; }
  bool guards_intact() {
    const auto intact = [](std::byte b) { return b == kGuardByte; };
    return std::all_of(storage_.begin(), begin(), intact) &&
           std::all_of(begin() + static_cast<std::ptrdiff_t>(bytes_), storage_.end(), intact);
  }

 private:
  static constexpr std::byte kGuardByte{0xa5};
  Bytes::iterator begin() { return storage_.begin() + static_cast<std::ptrdiff_t>(start_); }
  std::size_t bytes_, start_;
  Bytes storage_;
};

#if defined(TRY_LESS)
constexpr std::size_t kAlignmentStep = 7;  // every address of each pointer, not all combinations
#else
constexpr std::size_t kAlignmentStep = 1;
#endif

TEST(DeviceKernels, EveryAlignmentOfThreePointers) {
  std::mt19937_64 random(test_seed() + 4);
  for (const Pass& pass : passes()) {
    // Two vectors and some more, so that there is a head, a middle and a tail.
    const std::size_t count = 48 / pass.size() + 1, ranks = any_ranks(random);
    const Bytes left = any_elements(pass.type, count, random);
    const Bytes right = any_elements(pass.type, count, random);
    const Bytes want = pass.expected(left, right, ranks), empty(left.size());
    for (std::size_t at = 0; at < 16 * 16 * 16; at += kAlignmentStep) {
      const std::size_t into_at = at / 256, left_at = at / 16 % 16, right_at = at % 16;
      Placed into(empty, into_at), a(left, left_at), b(right, right_at);
      launch(pass.kernel(), ReduceArguments{into.data(), a.data(), b.data(), count, nullptr, ranks},
             {1, 4});
      const std::string note =
          std::to_string(into_at) + " " + std::to_string(left_at) + " " + std::to_string(right_at);
      expect_same(pass, left, right, into.data(), want, note);
      expect_same(pass, left, right, a.data(), left, note + " (left)");
      expect_same(pass, left, right, b.data(), right, note + " (right)");
      ASSERT_TRUE(into.guards_intact() && a.guards_intact() && b.guards_intact())
          << pass.kernel() << " wrote outside: " << note;
      if (HasFatalFailure()) return;
    }
  }
}

TEST(DeviceKernels, InPlaceOnEitherOperandAndACopyAnywhere) {
  std::mt19937_64 random(test_seed() + 5);
  for (const Pass& pass : passes())
    for (std::size_t at = 0; at < 16 * 16 && !HasFatalFailure(); ++at) {
      const std::size_t count = random() % 60, ranks = any_ranks(random);
      const Bytes left = any_elements(pass.type, count, random);
      const Bytes right = any_elements(pass.type, count, random);
      const Bytes want = pass.expected(left, right, ranks);
      Placed a(left, at / 16), b(right, at % 16), copy(Bytes(left.size()), random() % 16);
      const bool on_left = random() % 2 == 0, copies = random() % 2 == 0;
      Placed& into = on_left ? a : b;
      launch(pass.kernel(), ReduceArguments{into.data(), a.data(), b.data(), count,
                                            copies ? copy.data() : nullptr, ranks});
      expect_same(pass, left, right, into.data(), want, on_left ? "on left" : "on right");
      expect_same(pass, left, right, copy.data(), copies ? want : Bytes(left.size()), "copy");
      ASSERT_TRUE(a.guards_intact() && b.guards_intact() && copy.guards_intact())
          << pass.kernel() << " wrote outside";
    }
}

TEST(DeviceKernels, AFactorMultipliesAsTheCpusProduct) {
  std::mt19937_64 random(test_seed() + 6);
  for (const DataType type : scaled_types()) {
    const Pass product{ReduceOp::prod, type, true};
    for (int turn = 0; turn < 256 && !HasFatalFailure(); ++turn) {
      const std::size_t count = random() % 100;
      const Bytes input = any_elements(type, count, random);
      const Bytes factor = any_elements(type, 1, random);
      Bytes factors;
      for (std::size_t i = 0; i < count; ++i)
        factors.insert(factors.end(), factor.begin(), factor.end());
      const Bytes want = product.expected(input, factors, 1);
      Placed from(input, random() % 16), other(Bytes(input.size()), random() % 16);
      Placed late(factor, random() % 16);
      Placed& into = random() % 2 ? from : other;
      ScaleArguments arguments{into.data(), from.data(), nullptr, count, {}};
      if (turn % 2 == 0)
        arguments.late_factor = late.data();
      else
        std::memcpy(arguments.factor, factor.data(), factor.size());
      launch(device_scale_kernel(type), arguments);
      expect_same(product, input, factors, into.data(), want, "scaled");
      ASSERT_TRUE(from.guards_intact() && other.guards_intact()) << name_of(type);
    }
  }
}

TEST(DeviceImage, IsThereWhereNvccWas) {
  const auto image = device_kernels();
  if (!HAVE_NVCC) {
    // A build for tests has a text in its place.
    EXPECT_EQ(image.empty() ? 'S' : static_cast<char>(image[0]), 'S');
    return;
  }
  ASSERT_GT(image.size(), 16U);
  std::uint32_t magic = 0;
  std::uint64_t body = 0;
  std::memcpy(&magic, image.data(), sizeof magic);
  std::memcpy(&body, image.data() + 8, sizeof body);
  EXPECT_EQ(magic, 0xba55ed50U) << "a fatbin's first word";
  EXPECT_EQ(body + 16, image.size()) << "all of it";
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(image.data()) % 8, 0U) << "the driver reads words";
}

}  // namespace
}  // namespace coll::reduce
