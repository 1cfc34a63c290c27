// SPDX-License-Identifier: Apache-2.0
// Programs move blocks of any lengths right, in any order of progress.
#include "collectives/built.hpp"
#include "executor_ranks.hpp"
#include "test_seed.hpp"
#include "unequal_calls.hpp"

namespace coll::testing {
namespace {

void run_and_compare(const CollectiveSpec& spec, ExecutorRanks& ranks, bool in_place,
                     std::mt19937_64& random) {
  UnequalSample sample = draw_unequal(spec, in_place, random);
  std::vector<UnequalBuffers>& buffers = sample.buffers;
  for (std::size_t r = 0; r < buffers.size(); ++r) ranks.start(r, buffers[r].call(sample.known));
  ASSERT_TRUE(ranks.drive(random, 20'000'000, [&](std::size_t r) {
    buffers[r].compare();
    buffers[r].spoil();  // from now on the user's again
  })) << "no end in sight";
}

void run_unequal_algorithms(const FakeScript& script, bool stages = false) {
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
  run_unequal_algorithms({.max_delay = 3, .max_refusals = 2});
}

TEST(UnequalBlocks, EveryAlgorithmOnAnUnrulyNetworkThatLends) {
  run_unequal_algorithms({.max_delay = 3, .max_refusals = 2, .least_loan = 1});
}

TEST(UnequalBlocks, EveryAlgorithmThatStages) {
  run_unequal_algorithms({.max_delay = 3, .max_refusals = 2, .least_loan = 1}, true);
  run_unequal_algorithms({.least_loan = 1}, true);
}

/// Ranks that do not agree on a length find out with the first message, however many windows the
/// block has.
TEST(UnequalBlocks, LengthsThatDifferAreAMismatch) {
  const CollectiveSpec spec{Collective::all_to_all, 2, 0, true};
  ExecutorRanks ranks(build_all(*find_algorithm("linear"), spec), {});
  std::vector<std::int64_t> from(5000), into(5000);
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
