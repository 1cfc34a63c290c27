// SPDX-License-Identifier: Apache-2.0
// Short all_reduces by one_shot as code of its own: the same bits, and the same messages.
#include <algorithm>

#include "collectives/built.hpp"
#include "device_calls.hpp"
#include "executor/executor_ranks.hpp"
#include "fused_ranks.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

/// All ranks' inputs and outputs of one call, the former in place or not.
class OneShotCall {
 public:
  OneShotCall(std::size_t ranks, std::uint64_t count, DeviceOperation operation, bool in_place,
              std::size_t off, std::mt19937_64& random)
      : count_(count), operation_(operation), in_place_(in_place), off_(off) {
    for (std::size_t r = 0; r < ranks; ++r) {
      auto& bytes = memory_.emplace_back(off + 2 * length());
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    }
  }
  [[nodiscard]] std::size_t length() const { return count_ * size_of(operation_.type); }
  [[nodiscard]] std::vector<std::byte>& memory(std::size_t rank) { return memory_[rank]; }
  [[nodiscard]] CallBinding at(std::byte* begin) const {
    CallBinding call;
    call.input = begin + off_;
    call.output = begin + off_ + (in_place_ ? 0 : length());
    call.count = count_;
    call.element_bytes = size_of(operation_.type);
    call.op = operation_.op;
    call.type = operation_.type;
    call.kernels = &reduce::kernels(operation_.op, operation_.type);
    call.digest = 42;
    call.apart = !in_place_;
    return call;
  }
  /// What all ranks' memory is after the call on the device.
  std::vector<std::vector<std::byte>> run(FusedRanks& ranks, FusedPrograms& programs,
                                          std::vector<std::unique_ptr<DeviceArena>>& arenas) {
    std::vector<Run> runs(memory_.size());
    std::vector<std::vector<std::byte>> results;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      arenas[r]->write(memory_[r].data(), memory_[r].size());
      runs[r].bind(programs.program(r), at(arenas[r]->pointer()));
      ranks.progress(r).begin(runs[r]);
    }
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (!ranks.poll_until_done(r, runs[r])) break;
      arenas[r]->read(results.emplace_back(memory_[r].size()).data(), memory_[r].size());
    }
    return results;
  }

 private:
  std::uint64_t count_;
  DeviceOperation operation_;
  bool in_place_;
  std::size_t off_;
  std::vector<std::vector<std::byte>> memory_;
};

bool runs_one_shot(const FusedProgram& program, std::uint64_t count, DataType type) {
  const Windows windows =
      cut_windows(count, size_of(type), program.chunks.parts, program.shape.message_chunks,
                  program.shape.slice_bytes, program.shape.copies);
  fused::FusedArguments arguments = program.arguments;
  cut_for_kernel(program, windows, size_of(type), arguments);
  return arguments.one_shot != 0;
}

TEST(FusedOneShot, ClaimedAndInterpretedGiveTheBitsOfTheCpu) {
  const emulation_test::OnDevice device;
  std::mt19937_64 random(test::test_seed());
  std::vector<std::unique_ptr<DeviceArena>> arenas;
  for (std::size_t r = 0; r < kMostRanks; ++r)
    arenas.push_back(std::make_unique<DeviceArena>(1 << 16));
  FusedRanks claiming(kMostRanks, usual_shape(), 16),
      interpreting(kMostRanks, shape_of_lines(), 16);
  int claimed = 0, calls = 0;
  for (std::size_t size = 2; size <= kMostRanks; ++size) {
    const CollectiveSpec spec{Collective::all_reduce, static_cast<Rank>(size), 0};
    const std::vector<Schedule> schedules = build_all(*find_algorithm("one_shot"), spec);
    const FusedPrograms::Settings settings{1 + static_cast<std::uint32_t>(random() % 3),
                                           1 + static_cast<std::uint32_t>(random() % 3), 8192};
    FusedPrograms by_claim(claiming, {schedules}, settings);
    FusedPrograms by_steps(interpreting, {schedules}, settings);
    ExecutorRanks::Settings of_cpu;
    of_cpu.copies = settings.copies;
    of_cpu.slice_bytes = settings.slice_bytes;
    of_cpu.loans = Loans::none;
    ExecutorRanks on_cpu(schedules, of_cpu);
    for (std::size_t r = 0; r < size; ++r) {
      ASSERT_TRUE(by_claim.program(r).one_shot);
      ASSERT_FALSE(by_steps.program(r).one_shot);
    }
    for (int call = 0; call < 12; ++call) {
      const DeviceOperation operation = draw_operation(random);
      const std::size_t element = size_of(operation.type);
      const std::uint64_t most = fused::kOneShotBytes / size / element;
      const std::uint64_t counts[] = {0, 1, random() % 40, most, most + 1, 8192 / element};
      const std::uint64_t count = counts[static_cast<std::size_t>(call) % std::size(counts)];
      const bool in_place = random() % 2 == 0;
      SCOPED_TRACE(std::to_string(size) + " ranks, " + std::to_string(count) + " of " +
                   std::string(coll::name_of(operation.type)) + ", " +
                   std::string(coll::name_of(operation.op)));
      OneShotCall data(size, count, operation, in_place,
                       draw_offset(element, random() % 3 == 0, random), random);
      ++calls;
      if (runs_one_shot(by_claim.program(0), count, operation.type)) ++claimed;
      ASSERT_FALSE(runs_one_shot(by_steps.program(0), count, operation.type));
      const auto claimed_bits = data.run(claiming, by_claim, arenas);
      const auto stepped_bits = data.run(interpreting, by_steps, arenas);
      for (std::size_t r = 0; r < size; ++r) on_cpu.start(r, data.at(data.memory(r).data()));
      ASSERT_TRUE(on_cpu.drive(random, 20'000'000, [](std::size_t) {}));
      if (HasFailure()) return;
      for (std::size_t r = 0; r < size; ++r) {
        ASSERT_EQ(claimed_bits[r], data.memory(r)) << "rank " << r;
        ASSERT_EQ(stepped_bits[r], data.memory(r)) << "rank " << r;
      }
    }
  }
  EXPECT_GT(claimed, calls / 2);
  EXPECT_LT(claimed, calls);
}

/// A rank that claims and one that does not understand each other, call after call.
TEST(FusedOneShot, TheMessagesAreTheSame) {
  const emulation_test::OnDevice device;
  std::mt19937_64 random(test::test_seed());
  constexpr std::size_t kRanks = 3;
  std::vector<std::unique_ptr<DeviceArena>> arenas;
  for (std::size_t r = 0; r < kRanks; ++r) arenas.push_back(std::make_unique<DeviceArena>(1 << 12));
  const CollectiveSpec spec{Collective::all_reduce, kRanks, 0};
  const std::vector<Schedule> schedules = build_all(*find_algorithm("one_shot"), spec);
  FusedRanks ranks(kRanks, usual_shape());
  FusedPrograms programs(ranks, {schedules}, {1, 2, 4096});
  programs.program(1).one_shot = false;
  for (int call = 0; call < 50; ++call) {
    OneShotCall data(kRanks, 1 + random() % 50, {ReduceOp::sum, DataType::uint32}, true, 0, random);
    const auto bits = data.run(ranks, programs, arenas);
    ASSERT_EQ(bits.size(), kRanks);
    for (std::size_t i = 0; i < data.length(); i += 4) {
      const auto at = [&](const std::vector<std::byte>& bytes) {
        std::uint32_t value = 0;
        std::memcpy(&value, bytes.data() + i, sizeof value);
        return value;
      };
      const std::uint32_t sum = at(data.memory(0)) + at(data.memory(1)) + at(data.memory(2));
      for (const auto& result : bits) ASSERT_EQ(at(result), sum) << "call " << call;
    }
  }
}

/// Only that value is claimed.
TEST(FusedOneShot, OthersAreNotClaimed) {
  const emulation_test::OnDevice device;
  FusedRanks ranks(4, usual_shape());
  const CollectiveSpec spec{Collective::all_reduce, 4, 0};
  for (const char* const name : {"ring", "two_shot", "recursive_doubling", "one_shot_ordered"}) {
    FusedPrograms programs(ranks, {build_all(*find_algorithm(name), spec)}, {1, 2, 4096});
    EXPECT_FALSE(programs.program(2).one_shot) << name;
  }
  std::vector<Schedule> changed = build_all(*find_algorithm("one_shot"), spec);
  std::vector<Step> steps;
  for (const Step& step : changed[2].lanes[0]) steps.push_back(step);
  std::swap(steps[0], steps[1]);
  changed[2].lanes[0] = Lane(steps);
  FusedPrograms programs(ranks, {changed}, {1, 2, 4096});
  EXPECT_FALSE(programs.program(2).one_shot);
  EXPECT_TRUE(programs.program(1).one_shot);
}

}  // namespace
}  // namespace coll::testing
