// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: programs give the right result in any order of
// progress.
#include "collectives/algorithms.hpp"
#include "executor_ranks.hpp"
#include "schedule/chunk_map.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

std::int64_t input_at(std::size_t rank, std::uint64_t index) {
  return static_cast<std::int64_t>(rank * 1'000'003 + index * 7 + 1);
}

/// What `rank` must have at `index` of its output.
std::int64_t expected_at(const CollectiveSpec& spec, std::size_t rank, std::uint64_t count,
                         std::uint64_t index) {
  const auto sum = [&](std::uint64_t at) {
    std::int64_t total = 0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(spec.ranks); ++r) total += input_at(r, at);
    return total;
  };
  const auto root = static_cast<std::size_t>(spec.root);
  switch (spec.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
      return sum(index);
    case Collective::reduce_scatter:
      return sum(rank * count + index);
    case Collective::broadcast:
      return input_at(root, index);
    case Collective::scatter:
      return input_at(root, rank * count + index);
    case Collective::all_gather:
    case Collective::gather:
      return input_at(index / count, index % count);
    case Collective::all_to_all:
      return input_at(index / count, rank * count + index % count);
    default:
      return 0;
  }
}

/// Runs one call of int64 sums on all ranks and compares every element.
void run_and_compare(const CollectiveSpec& spec, ExecutorRanks& ranks, std::uint64_t count,
                     std::mt19937_64& random) {
  const auto size = static_cast<std::size_t>(spec.ranks);
  std::vector<std::vector<std::int64_t>> inputs(size), outputs(size);
  for (std::size_t r = 0; r < size; ++r) {
    const BlockShape shape =
        block_shape(spec.collective, spec.ranks, spec.root, static_cast<Rank>(r));
    inputs[r].resize(shape.input * count);
    for (std::uint64_t i = 0; i < inputs[r].size(); ++i) inputs[r][i] = input_at(r, i);
    outputs[r].resize(shape.output * count);
    CallBinding call;
    call.input = reinterpret_cast<const std::byte*>(inputs[r].data());
    call.output = reinterpret_cast<std::byte*>(outputs[r].data());
    call.count = count;
    call.element_bytes = 8;
    call.kernels = &reduce::kernels(ReduceOp::sum, DataType::int64);
    call.digest = 42;
    ranks.start(r, call);
  }
  ASSERT_TRUE(ranks.drive(random, 20'000'000)) << "no end in sight";
  for (std::size_t r = 0; r < size; ++r) {
    for (std::uint64_t i = 0; i < outputs[r].size(); ++i) {
      ASSERT_EQ(outputs[r][i], expected_at(spec, r, count, i)) << "rank " << r << " element " << i;
    }
  }
}

std::vector<Schedule> build_all(const Algorithm& algorithm, const CollectiveSpec& spec) {
  std::vector<Schedule> schedules;
  for (Rank rank = 0; rank < spec.ranks; ++rank) {
    schedules.push_back(algorithm.build(spec, Layout::flat(spec.ranks), rank));
  }
  return schedules;
}

TEST(CpuExecutor, EveryAlgorithmOnAnUnrulyNetwork) {
  std::mt19937_64 random(test::test_seed());
  for (const Algorithm& algorithm : algorithms()) {
    for (int c = 0; c < kCollectives; ++c) {
      for (const Rank size : {2, 3, 4, 6, 9}) {
        const CollectiveSpec spec{static_cast<Collective>(c), size,
                                  static_cast<Rank>(random() % static_cast<unsigned>(size))};
        if (spec.collective == Collective::send || spec.collective == Collective::recv) continue;
        if (!algorithm.supports(spec)) continue;
        SCOPED_TRACE(std::string(algorithm.name) + " " + std::string(name_of(spec.collective)) +
                     " on " + std::to_string(size) + " root " + std::to_string(spec.root));
        ExecutorRanks::Settings settings;
        settings.script = {.seed = random(), .max_delay = 3, .max_refusals = 2};
        settings.copies = 1 + static_cast<std::uint32_t>(random() % 3);
        settings.credits = CpuExecutor::kLeastCredits + static_cast<std::uint32_t>(random() % 3);
        settings.slice_bytes = 64u << (random() % 4);
        ExecutorRanks ranks(build_all(algorithm, spec), settings);
        for (const std::uint64_t count : {0U, 1U, 5U, 64U, 333U}) {
          run_and_compare(spec, ranks, count, random);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(CpuExecutor, StopsWhenToldTo) {
  const CollectiveSpec spec{Collective::barrier, 2, 0};
  ExecutorRanks ranks(build_all(*find_algorithm("dissemination"), spec), {});
  ranks.start(0, {});  // rank 1 never comes
  EXPECT_EQ(ranks.executor(0).drive(0.001), CpuExecutor::Outcome::idle);
  EXPECT_EQ(ranks.executor(0).waiting_for(), 1);
  ranks.stop() = true;
  EXPECT_EQ(ranks.executor(0).drive(10), CpuExecutor::Outcome::stopped);
}

TEST(CpuExecutor, ReportsTheConnectionThatFailed) {
  const CollectiveSpec spec{Collective::barrier, 2, 0};
  ExecutorRanks::Settings settings;
  settings.script.faults.push_back({.kind = FakeFault::Kind::cut, .from = 1, .to = 0});
  ExecutorRanks ranks(build_all(*find_algorithm("dissemination"), spec), settings);
  ranks.start(0, {});
  ranks.start(1, {});
  ranks.executor(1).poll();
  ASSERT_EQ(ranks.executor(0).drive(10), CpuExecutor::Outcome::failed);
  EXPECT_EQ(ranks.executor(0).failed_connection()->peer(), 1);
  EXPECT_EQ(ranks.executor(0).failed_connection()->status().code(), Code::peer_lost);
}

TEST(CpuExecutor, AnotherCallsMessageIsAMismatch) {
  const CollectiveSpec spec{Collective::barrier, 2, 0};
  ExecutorRanks ranks(build_all(*find_algorithm("dissemination"), spec), {});
  CallBinding call;
  call.digest = 1;
  ranks.start(0, call);
  call.digest = 2;
  ranks.start(1, call);
  ranks.executor(1).poll();
  ASSERT_EQ(ranks.executor(0).drive(10), CpuExecutor::Outcome::failed);
  EXPECT_EQ(ranks.executor(0).failed_connection()->status().code(), Code::mismatch);
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
