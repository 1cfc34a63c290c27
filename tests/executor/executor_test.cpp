// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: programs give the right result in any order of
// progress.
#include "built.hpp"
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

using Elements = std::vector<std::int64_t>;

/// One rank's buffers of a call: of their own, or one inside the other as in_place() has it.
class Buffers {
 public:
  Buffers(const CollectiveSpec& spec, std::size_t rank, std::uint64_t count, bool want_in_place) {
    const auto self = static_cast<Rank>(rank);
    const BlockShape shape = block_shape(spec.collective, spec.ranks, spec.root, self);
    const InPlace place = in_place(spec.collective, spec.ranks, spec.root, self);
    input_size_ = shape.input * count;
    output_size_ = shape.output * count;
    apart = !want_in_place || !place.allowed;
    memory_.resize(apart ? input_size_ + output_size_ : std::max(input_size_, output_size_));
    if (apart) {
      output_at_ = input_size_;
    } else {
      (place.input_inside_output ? input_at_ : output_at_) = place.offset_blocks * count;
    }
    for (std::uint64_t i = 0; i < input_size_; ++i) memory_[input_at_ + i] = input_at(rank, i);
  }

  [[nodiscard]] const std::byte* input() const {
    return reinterpret_cast<const std::byte*>(memory_.data() + input_at_);
  }
  std::byte* output() { return reinterpret_cast<std::byte*>(memory_.data() + output_at_); }
  /// The result; the memory is used for something else from now on.
  Elements take() {
    const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(output_at_);
    Elements result(begin, begin + static_cast<std::ptrdiff_t>(output_size_));
    std::ranges::fill(memory_, -1);
    return result;
  }

  bool apart = true;

 private:
  Elements memory_;
  std::uint64_t input_size_ = 0, output_size_ = 0;
  std::uint64_t input_at_ = 0, output_at_ = 0;
};

/// Runs one call of int64 sums on all ranks and compares every element. Each rank uses its memory
/// again as soon as its own part is over.
void run_and_compare(const CollectiveSpec& spec, ExecutorRanks& ranks, std::uint64_t count,
                     bool in_place, std::mt19937_64& random) {
  const auto size = static_cast<std::size_t>(spec.ranks);
  std::vector<Buffers> buffers;
  for (std::size_t r = 0; r < size; ++r) buffers.emplace_back(spec, r, count, in_place);
  for (std::size_t r = 0; r < size; ++r) {
    CallBinding call;
    call.input = buffers[r].input();
    call.output = buffers[r].output();
    call.count = count;
    call.element_bytes = 8;
    call.kernels = &reduce::kernels(ReduceOp::sum, DataType::int64);
    call.digest = 42;
    call.apart = buffers[r].apart;
    ranks.start(r, call);
  }
  std::vector<Elements> results(size);
  ASSERT_TRUE(ranks.drive(random, 20'000'000, [&](std::size_t r) {
    results[r] = buffers[r].take();
  })) << "no end in sight";
  for (std::size_t r = 0; r < size; ++r) {
    for (std::uint64_t i = 0; i < results[r].size(); ++i) {
      ASSERT_EQ(results[r][i], expected_at(spec, r, count, i)) << "rank " << r << " element " << i;
    }
  }
}

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
        ExecutorRanks::Settings settings;
        settings.script = script;
        settings.script.seed = random();
        settings.loans = stages ? Loans::none : Loans::all;
        settings.stages = stages;
        settings.copies = 1 + static_cast<std::uint32_t>(random() % 3);
        settings.credits = CpuExecutor::kLeastCredits + static_cast<std::uint32_t>(random() % 3);
        settings.slice_bytes = 64u << (random() % 4);
        ExecutorRanks ranks(build_all(algorithm, spec), settings);
        for (const std::uint64_t count : {0U, 1U, 5U, 64U, 333U}) {
          for (const bool in_place : {false, true}) {
            SCOPED_TRACE(describe(algorithm, spec) + ", count " + std::to_string(count) +
                         (in_place ? ", in place" : ", apart"));
            run_and_compare(spec, ranks, count, in_place, random);
            if (::testing::Test::HasFatalFailure()) return;
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

/// What several ranks get is written once, and stays until all of them have read it.
TEST(CpuExecutor, EveryAlgorithmThatStages) {
  run_every_algorithm({.max_delay = 3, .max_refusals = 2, .least_loan = 1}, true);
  run_every_algorithm({.least_loan = 1}, true);
}

/// A root's call and communicator may be over before anyone reads what it sent.
TEST(CpuExecutor, PlacesStayWhileTheyAreRead) {
  for (const bool early : {true, false}) {
    const CollectiveSpec spec{Collective::broadcast, 3, 0};
    ExecutorRanks ranks(build_all(*find_algorithm("linear"), spec),
                        {.script = {.least_loan = 1}, .loans = Loans::none, .stages = true});
    std::vector<Elements> data{{1, 2, 3}, {0, 0, 0}, {0, 0, 0}};
    for (std::size_t r = 0; r < data.size(); ++r) {
      CallBinding call;
      call.output = reinterpret_cast<std::byte*>(data[r].data());
      call.input = r == 0 ? call.output : nullptr;
      call.count = 3;
      call.element_bytes = 8;
      ranks.start(r, call);
    }
    ranks.executor(0).poll();
    ASSERT_TRUE(ranks.executor(0).done()) << "who stages need not wait for its readers";
    data[0].assign(3, -1);
    if (early) ranks.drop_program(0);
    EXPECT_EQ(ranks.freed(), 0);
    for (const std::size_t reader : {1U, 2U}) {
      ranks.executor(reader).poll();
      EXPECT_TRUE(ranks.executor(reader).done());
      EXPECT_EQ(data[reader], (Elements{1, 2, 3}));
    }
    if (!early) ranks.drop_program(0);
    EXPECT_EQ(ranks.freed(), early ? 0 : 1);
  }
}

TEST(CpuExecutor, StopsWhenToldTo) {
  const CollectiveSpec spec{Collective::barrier, 2, 0};
  ExecutorRanks ranks(build_all(*find_algorithm("dissemination"), spec), {});
  ranks.start(0, {});  // rank 1 never comes
  EXPECT_EQ(ranks.executor(0).drive(0.001), CpuExecutor::Outcome::idle);
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
