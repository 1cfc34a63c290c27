// SPDX-License-Identifier: Apache-2.0
// Programs move blocks of any lengths right, in any order of progress.
#include <numeric>

#include "collectives/built.hpp"
#include "executor_ranks.hpp"
#include "schedule/proof/block_lengths.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

using Elements = std::vector<std::int64_t>;
using Block = UnequalBlocks::Block;

constexpr std::int64_t kHole = -1;

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
std::int64_t given(Rank rank, const BlockName& block, std::uint64_t at) {
  return 1'000'003 * (rank + 1) + 7919 * (block.to + 2) + static_cast<std::int64_t>(at);
}

/// What must come out.
std::int64_t result(const CollectiveSpec& spec, const BlockName& block, std::uint64_t at) {
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
    call.digest = 42;
    call.apart = apart_;
    return call;
  }
  [[nodiscard]] std::uint64_t longest() const { return blocks_.longest(); }

  /// Compares the blocks, and looks whether the holes of an output apart are still there.
  void compare() const {
    Elements expected(memory_.begin() + static_cast<std::ptrdiff_t>(output_at_), memory_.end());
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

 private:
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
  Elements memory_;
  UnequalBlocks blocks_;
  bool apart_ = true;
  std::uint64_t output_at_ = 0;
};

void run_and_compare(const CollectiveSpec& spec, ExecutorRanks& ranks, bool in_place,
                     std::mt19937_64& random) {
  const Lengths lengths(spec.ranks, random);
  std::vector<UnequalBuffers> buffers;
  std::uint64_t longest = 0;
  for (Rank rank = 0; rank < spec.ranks; ++rank) {
    buffers.emplace_back(spec, rank, lengths, in_place, random);
    longest = std::max(longest, buffers.back().longest());
  }
  const std::uint64_t known = random() % 2 == 0 ? longest : 0;
  for (std::size_t r = 0; r < buffers.size(); ++r) ranks.start(r, buffers[r].call(known));
  ASSERT_TRUE(ranks.drive(random, 20'000'000, [&](std::size_t r) {
    buffers[r].compare();
    buffers[r].spoil();  // from now on the user's again
  })) << "no end in sight";
}

void run_every_algorithm(const FakeScript& script, bool stages = false) {
  std::mt19937_64 random(test::test_seed());
  for (const Algorithm& algorithm : algorithms()) {
    for (int c = 0; c < kCollectives; ++c) {
      for (const Rank size : {2, 3, 4, 6, 9}) {
        const CollectiveSpec spec{static_cast<Collective>(c), size,
                                  static_cast<Rank>(random() % static_cast<unsigned>(size)), true};
        const bool has_blocks = block_shape(spec.collective, size, 0, 0).input > 1 ||
                                block_shape(spec.collective, size, 0, 0).output > 1;
        if (!has_blocks || !algorithm.serves(spec, Layout::flat(size))) continue;
        ExecutorRanks ranks(build_all(algorithm, spec), drawn_settings(script, stages, random));
        for (int call = 0; call < 10; ++call) {
          const bool in_place = call % 2 != 0;
          SCOPED_TRACE(describe(algorithm, spec) + (in_place ? ", in place" : ", apart"));
          run_and_compare(spec, ranks, in_place, random);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(UnequalBlocks, EveryAlgorithmOnAnUnrulyNetwork) {
  run_every_algorithm({.max_delay = 3, .max_refusals = 2});
}

TEST(UnequalBlocks, EveryAlgorithmOnAnUnrulyNetworkThatLends) {
  run_every_algorithm({.max_delay = 3, .max_refusals = 2, .least_loan = 1});
}

TEST(UnequalBlocks, EveryAlgorithmThatStages) {
  run_every_algorithm({.max_delay = 3, .max_refusals = 2, .least_loan = 1}, true);
  run_every_algorithm({.least_loan = 1}, true);
}

/// Ranks that do not agree on a length find out with the first message, however many windows the
/// block has.
TEST(UnequalBlocks, LengthsThatDifferAreAMismatch) {
  const CollectiveSpec spec{Collective::all_to_all, 2, 0, true};
  ExecutorRanks ranks(build_all(*find_algorithm("linear"), spec), {});
  Elements from(5000), into(5000);
  UnequalBlocks first, second;
  first.input = {{0, 0}, {5000, 0}};
  first.output = second.input = {{0, 0}, {0, 0}};
  second.output = {{2000, 0}, {0, 0}};
  CallBinding call;
  call.input = reinterpret_cast<const std::byte*>(from.data());
  call.output = reinterpret_cast<std::byte*>(into.data());
  call.element_bytes = 8;
  call.apart = true;
  call.blocks = &first;
  ranks.start(0, call);
  call.blocks = &second;
  ranks.start(1, call);
  ranks.progress(0).poll();
  const Connection* const failed = ranks.failure(1);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->status().code(), Code::mismatch);
}

}  // namespace
}  // namespace coll::testing
