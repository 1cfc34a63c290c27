// SPDX-License-Identifier: Apache-2.0
// Programs give the right result in any order of progress.
#include "collectives/built.hpp"
#include "executor_calls.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

/// Runs one call of int64 sums on all ranks and compares every element. Each rank uses its memory
/// again as soon as its own part is over.
void run_and_compare(const CollectiveSpec& spec, ExecutorRanks& ranks, std::uint64_t count,
                     bool in_place, std::mt19937_64& random) {
  const auto size = static_cast<std::size_t>(spec.ranks);
  std::vector<Buffers> buffers;
  for (std::size_t r = 0; r < size; ++r) buffers.emplace_back(spec, r, count, in_place);
  for (std::size_t r = 0; r < size; ++r) {
    ranks.start(r, buffers[r].call(42));
  }
  std::vector<Elements> results(size);
  ASSERT_TRUE(ranks.drive(random, 20'000'000, [&](std::size_t r) {
    results[r] = buffers[r].take();
  })) << "no end in sight";
  for (std::size_t r = 0; r < size; ++r) compare(results[r], spec, r, count);
}

#ifdef TRY_LESS
constexpr bool kTriesHalf = true;
#else
constexpr bool kTriesHalf = false;
#endif

/// Every algorithm and operation, in place and apart, while messages wait, arrive late and find few
/// credits, and the ranks' turns come in any order.
void run_every_algorithm(const FakeScript& script, bool stages = false) {
  std::mt19937_64 random(test::test_seed());
  for (const Algorithm& algorithm : algorithms()) {
    for (int c = 0; c < kCollectives; ++c) {
      for (const Rank size : {2, 3, 4, 6, 9}) {
        const CollectiveSpec spec{static_cast<Collective>(c), size,
                                  static_cast<Rank>(random() % static_cast<unsigned>(size))};
        if (spec.collective == Collective::send || spec.collective == Collective::recv) continue;
        if (!algorithm.supports(spec, Layout::flat(spec.ranks))) continue;
        ExecutorRanks ranks(build_all(algorithm, spec), drawn_settings(script, stages, random));
        for (const std::uint64_t count : {0U, 1U, 5U, 64U, 333U}) {
          for (const bool in_place : {false, true}) {
            if (kTriesHalf && random() % 2 == 0) continue;
            SCOPED_TRACE(describe(algorithm, spec) + ", count " + std::to_string(count) +
                         (in_place ? ", in place" : ", apart"));
            run_and_compare(spec, ranks, count, in_place, random);
            if (::testing::Test::HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(CpuExecutor, EveryAlgorithmOnAnUnrulyNetwork) {
  run_every_algorithm({.max_delay = 3, .max_refusals = 2});
}

TEST(CpuExecutor, EveryAlgorithmOnAnUnrulyNetworkThatLends) {
  run_every_algorithm({.max_delay = 3, .max_refusals = 2, .least_loan = 1});
}

/// Only what was lent keeps a call from its end.
TEST(CpuExecutor, EveryAlgorithmOnAPromptNetworkThatLends) {
  run_every_algorithm({.least_loan = 1});
}

/// Messages are written to their places before the steps that wait for them.
TEST(CpuExecutor, EveryAlgorithmOnANetworkWhereMessagesLand) {
  run_every_algorithm({.max_delay = 3, .max_refusals = 2, .least_landing = 1});
  run_every_algorithm({.least_loan = 1, .least_landing = 100});
}

/// Of a broadcast in four windows rank 1 tells the fake's five messages ahead: all.
TEST(CpuExecutor, TellsWhereTheMessagesOfLaterWindowsGo) {
  const CollectiveSpec spec{Collective::broadcast, 2, 0};
  ExecutorRanks ranks(build_all(*find_algorithm("chain"), spec),
                      {.script = {.least_landing = 1}, .credits = 4});
  const std::uint64_t count = 4 * 256 / 8;
  Buffers root(spec, 0, count, false), other(spec, 1, count, false);
  ranks.start(1, other.call(42));
  EXPECT_FALSE(ranks.progress(1).poll());
  ranks.start(0, root.call(42));
  EXPECT_TRUE(ranks.progress(0).poll());
  EXPECT_TRUE(ranks.run(0).done());
  const auto there = other.memory();
  for (std::uint64_t i = 0; i < count; ++i)
    ASSERT_EQ(there[i], input_at(0, i, 0)) << "element " << i << " before rank 1 looks";
  EXPECT_TRUE(ranks.progress(1).poll());
  EXPECT_TRUE(ranks.run(1).done());
}

/// Rank 1 of a ring gets two messages in each window.
TEST(CpuExecutor, TellsOfEachMessageOfLaterWindowsWhereItGoes) {
  const CollectiveSpec spec{Collective::all_gather, 3, 0};
  ExecutorRanks ranks(build_all(*find_algorithm("ring"), spec),
                      {.script = {.least_landing = 1}, .credits = 4});
  const std::uint64_t count = 3 * 256 / 8;
  std::vector<Buffers> buffers;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    buffers.emplace_back(spec, rank, count, false);
    ranks.start(rank, buffers[rank].call(42));
  }
  ranks.progress(1).poll();
  for (int turn = 0; turn < 20; ++turn) {
    ranks.progress(0).poll();
    ranks.progress(2).poll();
  }
  EXPECT_FALSE(ranks.run(0).done());
  const auto output = buffers[1].memory().subspan(count);
  // Rank 0 is two windows far, and rank 2, which waits for rank 1, one.
  for (const std::uint64_t from : {0U, 2U})
    for (std::uint64_t i = 0; i < (from == 0 ? 2 : 1) * 256 / 8; ++i)
      ASSERT_EQ(output[from * count + i], input_at(from, i, 0)) << "of rank " << from << ": " << i;
}

/// A call that is given up has its memory to itself.
TEST(CpuExecutor, AnAbandonedCallExpectsNothing) {
  const CollectiveSpec spec{Collective::broadcast, 2, 0};
  ExecutorRanks ranks(build_all(*find_algorithm("chain"), spec), {.script = {.least_landing = 1}});
  Buffers root(spec, 0, 32, false), other(spec, 1, 32, false);
  ranks.start(1, other.call(42));
  EXPECT_FALSE(ranks.progress(1).poll());
  ranks.progress(1).abandon(ranks.run(1));
  ASSERT_NE(failed_connection(ranks.run(1)), nullptr);
  std::ranges::fill(other.memory(), 7);
  ranks.start(0, root.call(42));
  ranks.progress(0).poll();
  EXPECT_EQ(std::ranges::count(other.memory(), 7), 32);
}

/// What several ranks get is written once, and stays until all of them have read it.
TEST(CpuExecutor, EveryAlgorithmThatStages) {
  run_every_algorithm({.max_delay = 3, .max_refusals = 2, .least_loan = 1}, true);
  run_every_algorithm({.least_loan = 1}, true);
}

/// Some of those who get the same cannot be lent anything.
TEST(CpuExecutor, EveryAlgorithmThatStagesForSome) {
  constexpr auto kNever = ~std::size_t{0};
  run_every_algorithm({.max_delay = 3,
                       .max_refusals = 2,
                       .least_loan = 1,
                       .least_loan_to = {{1, kNever}, {2, 65}, {5, kNever}}},
                      true);
}

TEST(Run, KnowsTheConnectionThatFailed) {
  const CollectiveSpec spec{Collective::barrier, 2, 0};
  ExecutorRanks::Settings settings;
  settings.script.faults.push_back({.kind = FakeFault::Kind::cut, .from = 1, .to = 0});
  ExecutorRanks ranks(build_all(*find_algorithm("dissemination"), spec), settings);
  ranks.start(0, {});
  ranks.start(1, {});
  ranks.progress(1).poll();
  const Connection* const failed = ranks.failure(0);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->peer(), 1);
  EXPECT_EQ(failed->status().code(), Code::peer_lost);
}

TEST(Run, AnotherCallsMessageIsAMismatch) {
  const CollectiveSpec spec{Collective::barrier, 2, 0};
  ExecutorRanks ranks(build_all(*find_algorithm("dissemination"), spec), {});
  CallBinding call;
  call.digest = 1;
  ranks.start(0, call);
  call.digest = 2;
  ranks.start(1, call);
  ranks.progress(1).poll();
  const Connection* const failed = ranks.failure(0);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->status().code(), Code::mismatch);
}

TEST(Windows, CoverEveryElementOnceAndFitTheSlice) {
  std::mt19937_64 random(test::test_seed());
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t count = random() % (std::uint64_t{1} << (random() % 34));
    const std::size_t element = std::size_t{1} << (random() % 4);
    const auto parts = static_cast<std::uint32_t>(1 + random() % 70);
    const auto message = static_cast<std::uint32_t>(1 + random() % parts);
    const std::uint64_t slice = std::max<std::uint64_t>(64U << (random() % 12), message * element);
    const auto lanes = static_cast<std::uint32_t>(1 + random() % 4);
    const Windows w = cut_windows(count, element, parts, message, slice, lanes);
    ASSERT_GE(w.elements * w.passes, count);
    ASSERT_TRUE(w.passes == 1 || w.elements * (w.passes - 1) < count) << "an empty last pass";
    ASSERT_LE(w.chunk * message * element, slice);
    ASSERT_EQ(w.elements, w.chunk * parts);
  }
}

}  // namespace
}  // namespace coll::testing
