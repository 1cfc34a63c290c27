// SPDX-License-Identifier: Apache-2.0
// Calls of blocks of any lengths, with what goes in and what must come out.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "executor/run.hpp"
#include "schedule/proof/block_lengths.hpp"

namespace coll::testing {

inline constexpr std::int64_t kHole = -1;

/// The length of each block of an operation, by its name.
class Lengths {
 public:
  Lengths(Rank ranks, std::mt19937_64& random) : ranks_(ranks) {
    const auto some = [&]() -> std::uint64_t {
      if (random() % 4 == 0) return 0;
      return random() % (random() % 3 == 0 ? 700 : 40);
    };
    lengths_.resize(static_cast<std::size_t>((ranks + 1) * (ranks + 1)));
    for (std::uint64_t& length : lengths_) length = some();
  }
  [[nodiscard]] std::uint64_t of(const BlockName& name) const {
    return lengths_[static_cast<std::size_t>((name.from + 1) * (ranks_ + 1) + name.to + 1)];
  }

 private:
  Rank ranks_;
  std::vector<std::uint64_t> lengths_;
};

/// What a rank gives, as an element of its input.
inline std::int64_t given(Rank rank, const BlockName& block, std::uint64_t at) {
  return 1'000'003 * (rank + 1) + 7919 * (block.to + 2) + static_cast<std::int64_t>(at);
}

/// What must come out.
inline std::int64_t result(const CollectiveSpec& spec, const BlockName& block, std::uint64_t at) {
  if (!reduces(spec.collective)) {
    return given(block.from == kNoRank ? spec.root : block.from, block, at);
  }
  std::int64_t sum = 0;
  for (Rank rank = 0; rank < spec.ranks; ++rank) sum += given(rank, block, at);
  return sum;
}

/// A rank's buffers, with holes, and in place where `spec` and `want_in_place` allow it.
class UnequalBuffers {
 public:
  UnequalBuffers(const CollectiveSpec& spec, Rank rank, const Lengths& lengths, bool want_in_place,
                 std::mt19937_64& random)
      : spec_(spec), rank_(rank) {
    const BlockShape shape = block_shape(spec.collective, spec.ranks, spec.root, rank);
    const InPlace place = in_place(spec.collective, spec.ranks, spec.root, rank);
    const std::uint64_t input_size = lay(Space::input, shape.input, lengths, blocks_.input, random);
    const std::uint64_t output_size =
        lay(Space::output, shape.output, lengths, blocks_.output, random);
    apart_ = !want_in_place || !place.allowed;
    if (apart_) {
      output_at_ = input_size;
      memory_.assign(input_size + output_size, kHole);
    } else {
      // The one block is the rank's own of the many.
      const bool inside = place.input_inside_output;
      std::vector<Block>& one = inside ? blocks_.input : blocks_.output;
      one[0] = (inside ? blocks_.output : blocks_.input)[place.offset_blocks];
      memory_.assign(inside ? output_size : input_size, kHole);
    }
    for (std::size_t b = 0; b < blocks_.input.size(); ++b) {
      const Block& block = blocks_.input[b];
      for (std::uint64_t i = 0; i < block.count; ++i) {
        memory_[block.offset + i] = given(rank, name(Space::input, b), i);
      }
    }
  }

  CallBinding call(std::uint64_t longest_of_all) {
    blocks_.longest_of_all = longest_of_all;
    CallBinding call;
    call.input = reinterpret_cast<const std::byte*>(memory_.data());
    call.output = reinterpret_cast<std::byte*>(memory_.data() + output_at_);
    call.blocks = &blocks_;
    call.element_bytes = 8;
    call.kernels = &reduce::kernels(ReduceOp::sum, DataType::int64);
    call.op = ReduceOp::sum;
    call.type = DataType::int64;
    call.digest = 42;
    call.apart = apart_;
    return call;
  }
  [[nodiscard]] std::uint64_t longest() const { return blocks_.longest(); }

  /// Compares the blocks, and looks whether the holes of an output apart are still there.
  void compare() const {
    std::vector<std::int64_t> expected(memory_.begin() + static_cast<std::ptrdiff_t>(output_at_),
                                       memory_.end());
    if (apart_) std::ranges::fill(expected, kHole);
    for (std::size_t b = 0; b < blocks_.output.size(); ++b) {
      const Block& block = blocks_.output[b];
      for (std::uint64_t i = 0; i < block.count; ++i) {
        expected[block.offset + i] = result(spec_, name(Space::output, b), i);
      }
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(memory_[output_at_ + i], expected[i]) << "rank " << rank_ << " element " << i;
    }
  }
  void spoil() { std::ranges::fill(memory_, kHole); }

  /// All of it: a call may be made in a copy.
  [[nodiscard]] std::span<std::int64_t> memory() { return memory_; }

 private:
  using Block = UnequalBlocks::Block;
  [[nodiscard]] BlockName name(Space space, std::size_t block) const {
    return block_name(spec_, rank_, space, static_cast<std::uint32_t>(block));
  }
  std::uint64_t lay(Space space, std::uint32_t count, const Lengths& lengths,
                    std::vector<Block>& blocks, std::mt19937_64& random) const {
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    if (random() % 2 == 0) std::ranges::shuffle(order, random);
    const bool holes = random() % 2 == 0;
    std::uint64_t end = 0;
    blocks.resize(count);
    for (const std::uint32_t block : order) {
      if (holes) end += random() % 4;
      blocks[block] = {lengths.of(name(space, block)), end};
      end += blocks[block].count;
    }
    return end;
  }

  CollectiveSpec spec_;
  Rank rank_;
  std::vector<std::int64_t> memory_;
  UnequalBlocks blocks_;
  bool apart_ = true;
  std::uint64_t output_at_ = 0;
};

/// The buffers of all ranks for one call of blocks of any lengths.
struct UnequalSample {
  std::vector<UnequalBuffers> buffers;
  std::uint64_t known = 0;  ///< what all ranks know of the lengths
};

inline UnequalSample draw_unequal(const CollectiveSpec& spec, bool in_place,
                                  std::mt19937_64& random) {
  const Lengths lengths(spec.ranks, random);
  UnequalSample sample;
  std::uint64_t longest = 0;
  for (Rank rank = 0; rank < spec.ranks; ++rank) {
    sample.buffers.emplace_back(spec, rank, lengths, in_place, random);
    longest = std::max(longest, sample.buffers.back().longest());
  }
  sample.known = random() % 2 == 0 ? longest : 0;
  return sample;
}

}  // namespace coll::testing
