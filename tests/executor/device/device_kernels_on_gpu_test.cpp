// SPDX-License-Identifier: Apache-2.0
// The kernels of reductions, loaded through the driver, give the bits of the CPU's: on a GPU those
// that nvcc made, under the emulated driver their twins.
#include <array>
#include <random>
#include <string>
#include <vector>

#include "reduce/device/reduce_arguments.hpp"
#include "reduce/reduce.hpp"
#include "reduce/reduce_data.hpp"
#include "stream_ranks.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

struct KernelPass {
  ReduceOp op;
  DataType type;
  bool finish;
};

std::vector<KernelPass> every_pass() {
  std::vector<KernelPass> all;
  for (int op = 0; op < kReduceOps; ++op) {
    for (int type = 0; type < kDataTypes; ++type) {
      for (const bool finish : {false, true}) {
        const KernelPass pass{static_cast<ReduceOp>(op), static_cast<DataType>(type), finish};
        if (has_meaning(pass.op, pass.type)) all.push_back(pass);
      }
    }
  }
  return all;
}

/// The same three pieces of memory on the device and on the host: into, left and right.
class KernelOperands {
 public:
  static constexpr std::size_t kMost = 2000;  ///< elements

  /// Each with an element before and one behind that stay as they are. It begins with the one or
  /// the other, so that pointers have different alignments.
  KernelOperands(DataType type, std::size_t count, std::mt19937_64& random)
      : count_(count), size_(size_of(type)) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      bytes_[i] = test::any_elements(type, count + 2, random);
      begins_[i] = random() % 2 * size_;
      arena(i).write(bytes_[i].data(), bytes_[i].size());
    }
  }
  void run_on_device(CUfunction kernel, std::uint64_t ranks) {
    const auto at = [this](std::size_t i) { return arena(i).pointer(begins_[i]); };
    reduce::ReduceArguments arguments{at(0), at(1), at(2), count_, nullptr, ranks};
    void* parameters[] = {&arguments};
    const TestStream stream;
    EXPECT_CUDA_OK(cuLaunchKernel(kernel, 3, 1, 1, 64, 1, 1, 0, stream, parameters, nullptr));
    stream.synchronize();
  }
  void run_on_cpu(const KernelPass& pass, std::uint64_t ranks) {
    const auto at = [this](std::size_t i) { return bytes_[i].data() + begins_[i]; };
    const reduce::Kernels& kernels = reduce::kernels(pass.op, pass.type);
    (pass.finish ? kernels.finish : kernels.combine)[0](at(0), at(1), at(2), count_, ranks);
  }
  void expect_same() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      std::vector<std::byte> got(bytes_[i].size());
      arena(i).read(got.data(), got.size());
      const auto differ = std::ranges::mismatch(got, bytes_[i]);
      ASSERT_TRUE(differ.in1 == got.end())
          << "operand " << i << ", which begins at byte " << begins_[i] << ", differs in byte "
          << differ.in1 - got.begin() << " of " << got.size();
    }
  }

 private:
  /// Never freed: the driver may be gone before.
  static DeviceArena& arena(std::size_t i) {
    static auto& arenas = *new std::array<DeviceArena, 3>{DeviceArena((kMost + 2) * 16),
                                                          DeviceArena((kMost + 2) * 16),
                                                          DeviceArena((kMost + 2) * 16)};
    return arenas[i];
  }
  std::size_t count_, size_;
  std::array<std::vector<std::byte>, 3> bytes_;
  std::array<std::size_t, 3> begins_{};
};

TEST(DeviceKernelsOnGpu, EveryPassGivesTheBitsOfTheCpu) {
  const OnDevice device;
  std::mt19937_64 random(test::test_seed());
  for (const KernelPass& pass : every_pass()) {
    const auto kernel = device_of_test().kernel(pass.op, pass.type, pass.finish, stream_image());
    ASSERT_TRUE(kernel.ok()) << kernel.status().text();
    auto* const function = reinterpret_cast<CUfunction>(*kernel);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, 1000 + random() % 1000}) {
      const std::uint64_t ranks = 1 + random() % 100;
      SCOPED_TRACE(reduce::device_kernel(pass.op, pass.type, pass.finish) + " of " +
                   std::to_string(count) + ", ranks " + std::to_string(ranks));
      KernelOperands operands(pass.type, count, random);
      operands.run_on_device(function, ranks);
      operands.run_on_cpu(pass, ranks);
      operands.expect_same();
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace coll::testing
