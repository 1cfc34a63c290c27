// SPDX-License-Identifier: Apache-2.0
// Every operation, sampled over all that it can depend on.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <latch>
#include <random>

#include "communicator/calls/call_check.hpp"
#include "exact_oracle.hpp"
#include "fake_hosts.hpp"
#include "rank_threads.hpp"
#include "schedule/chunk_map.hpp"
#include "sys/memory/peer_memory.hpp"
#include "sys/memory/shared_arena.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

/// One operation's arguments, drawn alike on all ranks.
struct Sample {
  Collective collective = Collective::barrier;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Rank root = 0;
  std::uint64_t count = 0;
  bool in_place = false;
  std::size_t misaligned = 0;
  std::uint64_t data = 0;

  [[nodiscard]] std::string text() const {
    return Call{1, collective, type, op, CallForm::usual, root, count}.text() +
           (in_place ? " in place" : "") + " at +" + std::to_string(misaligned) + " data " +
           std::to_string(data);
  }
};

constexpr std::array kPlain{
    Collective::all_reduce, Collective::reduce,         Collective::broadcast,
    Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all,
    Collective::gather,     Collective::scatter,        Collective::barrier};

Sample draw(std::mt19937_64& random, Rank ranks, std::uint64_t most_bytes) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  Sample sample;
  sample.collective = kPlain[below(kPlain.size())];
  sample.type = static_cast<DataType>(below(kDataTypes));
  do {
    sample.op = static_cast<ReduceOp>(below(kReduceOps));
  } while (!has_meaning(sample.op, sample.type));
  sample.root = static_cast<Rank>(below(static_cast<std::uint64_t>(ranks)));
  constexpr std::array<std::uint64_t, 8> kOdd{0, 1, 2, 3, 7, 16, 17, 33};
  const std::uint64_t most = most_bytes / size_of(sample.type);
  sample.count = below(2) == 0 ? kOdd[below(kOdd.size())]
                               : below(std::max<std::uint64_t>(most >> below(12), 1));
  sample.in_place = below(2) == 0 && sample.collective != Collective::all_to_all;
  sample.misaligned = below(2) == 0 ? 0 : below(64);
  sample.data = random();
  return sample;
}

/// A buffer at a chosen misalignment with guards around it that a stray write would change.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t misaligned) : begin_(64 + misaligned) {
    memory_.assign(begin_ + bytes + 64, kGuard);
  }
  std::byte* data() { return memory_.data() + begin_; }
  void fill(const std::vector<std::byte>& from, std::size_t offset = 0) {
    if (!from.empty()) std::memcpy(data() + offset, from.data(), from.size());
  }
  [[nodiscard]] bool guards_intact() const {
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(begin_),
                       is_guard) &&
           std::all_of(memory_.end() - 64, memory_.end(), is_guard);
  }
  [[nodiscard]] bool holds(const std::vector<std::byte>& what, std::size_t offset = 0) {
    return what.empty() || std::memcmp(data() + offset, what.data(), what.size()) == 0;
  }

 private:
  static constexpr std::byte kGuard{0xa5};
  static bool is_guard(std::byte b) { return b == kGuard; }
  std::size_t begin_;
  std::vector<std::byte> memory_;
};

void run_sample(Communicator& comm, const Sample& sample) {
  const Rank ranks = comm.size(), rank = comm.rank();
  const std::size_t block = sample.count * size_of(sample.type);
  const BlockShape shape = block_shape(sample.collective, ranks, sample.root, rank);
  const std::vector<std::byte> input =
      make_input(sample.type, sample.op, ranks, rank, sample.count * shape.input, sample.data);
  const std::vector<std::byte> expected =
      expected_output(sample.collective, sample.type, sample.op, ranks, sample.root, rank,
                      sample.count, sample.data);
  ASSERT_EQ(expected.size(), block * shape.output);

  Guarded first(std::max(input.size(), expected.size()), sample.misaligned);
  Guarded second(expected.size(), sample.misaligned / 2);
  const InPlace rule = in_place(sample.collective, ranks, sample.root, rank);
  const bool in_place = sample.in_place && rule.allowed;
  Request request;
  request.call = {0,           sample.collective, sample.type, sample.op, CallForm::usual,
                  sample.root, sample.count};
  std::size_t output_at = 0;
  if (in_place) {
    const std::size_t offset = rule.offset_blocks * block;
    const std::size_t input_at = rule.input_inside_output ? offset : 0;
    output_at = rule.input_inside_output ? 0 : offset;
    first.fill(input, input_at);
    request.input = first.data() + input_at;
    request.output = first.data() + output_at;
  } else {
    first.fill(input);
    request.input = first.data();
    request.output = second.data();
  }
  const Status checked = check_request(request, comm.rank(), comm.size());
  ASSERT_TRUE(checked.ok()) << checked.text() << " in " << sample.text();
  const Status status = comm.run(request);
  ASSERT_TRUE(status.ok()) << status.text() << " in " << sample.text();
  EXPECT_TRUE((in_place ? first : second).holds(expected, output_at))
      << "rank " << rank << " of " << ranks << ": wrong result of " << sample.text();
  EXPECT_TRUE(first.guards_intact() && second.guards_intact())
      << "rank " << rank << ": wrote outside the buffer in " << sample.text();
  if (!in_place) {
    EXPECT_TRUE(first.holds(input)) << "the input changed in " << sample.text();
  }
}

/// Sanitizers look at memory and threads, for which fewer arguments do.
#ifdef TRY_LESS
constexpr int kFewer = 6;
#else
constexpr int kFewer = 1;
#endif

/// `samples` operations, one after another on one communicator, so that they also meet each other.
void run_samples(Rank ranks, const RanksOptions& options, int samples, std::uint64_t most_bytes) {
  run_ranks(ranks, options, [&](Communicator& comm) {
    std::mt19937_64 random(test::test_seed() + static_cast<std::uint64_t>(ranks));
    for (int i = 0; i < samples / kFewer; ++i) {
      run_sample(comm, draw(random, ranks, most_bytes));
      if (::testing::Test::HasFailure()) return;
    }
  });
}

class OnTransport : public ::testing::TestWithParam<const char*> {};

TEST_P(OnTransport, AnyOperationWithTheChosenAlgorithms) {
  for (const Rank ranks : {1, 2, 3, 4, 5, 8, 16}) {
    SCOPED_TRACE(ranks);
    RanksOptions options;
    options.transports = GetParam();
    run_samples(ranks, options, ranks <= 4 ? 150 : 60, ranks <= 4 ? 600'000 : 100'000);
    if (HasFailure()) return;
  }
}

/// Small slices make many passes of small inputs; the fewest credits leave no slack for a wrong
/// order.
TEST_P(OnTransport, AnyOperationInManyPassesAtFewestCredits) {
  for (const Rank ranks : {2, 3, 6}) {
    SCOPED_TRACE(ranks);
    RanksOptions options;
    options.transports = GetParam();
    options.settings.slice_bytes = 512;
    options.settings.credits = kLeastCredits;
    options.settings.lanes = 2;
    run_samples(ranks, options, 60, 20'000);
    if (HasFailure()) return;
  }
}

TEST_P(OnTransport, EveryAlgorithm) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const Rank ranks : {2, 3, 4, 7, 8}) {
      SCOPED_TRACE(std::string(algorithm.name) + " on " + std::to_string(ranks) + " ranks");
      RanksOptions options;
      options.transports = GetParam();
      options.settings.algorithm = algorithm.name;
      run_samples(ranks, options, 25, 60'000);
      if (HasFailure()) return;
    }
  }
}

/// The draws above leave some of these out.
TEST_P(OnTransport, EveryReductionOfEveryType) {
  RanksOptions options;
  options.transports = GetParam();
  run_ranks(3, options, [&](Communicator& comm) {
    for (int i = 0; i < kReduceOps * kDataTypes; ++i) {
      Sample sample;
      sample.op = static_cast<ReduceOp>(i / kDataTypes);
      sample.type = static_cast<DataType>(i % kDataTypes);
      if (!has_meaning(sample.op, sample.type)) continue;
      for (const Collective collective :
           {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter}) {
        sample.collective = collective;
        sample.count = 1 + static_cast<std::uint64_t>(i) * 7;
        sample.misaligned = static_cast<std::size_t>(i) % 64;
        sample.in_place = i % 2 == 0;
        sample.data = test::test_seed() + static_cast<std::uint64_t>(i);
        run_sample(comm, sample);
      }
      if (::testing::Test::HasFailure()) return;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, OnTransport, ::testing::Values("shm", "tcp"),
                         [](const auto& which) { return std::string(which.param); });

/// Equal hosts, unequal ones, and hosts whose ranks are not consecutive.
TEST(OnSeveralHosts, AnyOperationWithHierarchicalAlgorithms) {
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.name.starts_with("hierarchical")) continue;
    for (const std::vector<int>& hosts : std::vector<std::vector<int>>{
             {0, 0, 1, 1}, {0, 1, 1, 1, 2, 2}, {0, 1, 0, 1, 0, 1, 0, 1}}) {
      const auto ranks = static_cast<Rank>(hosts.size());
      SCOPED_TRACE(std::string(algorithm.name) + " on " + std::to_string(ranks) + " ranks");
      RanksOptions options;
      options.choices = on_hosts(hosts);
      options.settings.algorithm = algorithm.name;
      run_ranks(ranks, options, [&](Communicator& comm) {
        const auto text = comm.explain_call(
            {.collective = Collective::all_reduce, .type = DataType::float32, .count = 1000});
        ASSERT_TRUE(text.ok()) << text.status().text();
        EXPECT_NE(text->find(": " + std::string(algorithm.name) + ", "), std::string::npos)
            << *text;
      });
      run_samples(ranks, options, 60, 60'000);
      options.settings.slice_bytes = 512;
      options.settings.credits = kLeastCredits;
      run_samples(ranks, options, 20, 20'000);
      if (HasFailure()) return;
    }
  }
}

TEST(OnSeveralHosts, AnyOperationWithTheChosenAlgorithms) {
  RanksOptions options;
  options.choices = on_hosts({0, 0, 0, 1, 1, 1});
  run_samples(6, options, 60, 300'000);
}

TEST(SendRecv, PairsOfAllRanksInBothDirections) {
  for (const char* transport : {"shm", "tcp"}) {
    RanksOptions options;
    options.transports = transport;
    run_ranks(4, options, [](Communicator& comm) {
      for (const std::uint64_t count : {0U, 1U, 1000U, 300'000U}) {
        for (Rank a = 0; a < comm.size(); ++a) {
          for (Rank b = 0; b < comm.size(); ++b) {
            if (a == b || (comm.rank() != a && comm.rank() != b)) continue;
            Request request;
            const std::vector<std::byte> data =
                make_input(DataType::int32, ReduceOp::sum, 4, a, count, 77);
            std::vector<std::byte> into(data.size());
            const bool sends = comm.rank() == a;
            request.call = {0,
                            sends ? Collective::send : Collective::recv,
                            DataType::int32,
                            ReduceOp::sum,
                            CallForm::usual,
                            sends ? b : a,
                            count};
            request.input = sends ? data.data() : nullptr;
            request.output = sends ? nullptr : into.data();
            ASSERT_TRUE(check_request(request, comm.rank(), comm.size()).ok());
            const Status status = comm.run(request);
            ASSERT_TRUE(status.ok()) << status.text();
            EXPECT_TRUE(sends || into == data) << "from " << a << " to " << b << " x" << count;
          }
        }
      }
    });
  }
}

/// Floats whose sum depends on the order: all ranks must still get the same bits.
TEST(AllReduce, SameBitsOnEveryRankWithEveryAlgorithm) {
  constexpr std::uint64_t kCount = 5000;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Rank ranks : {2, 3, 5, 8}) {
      if (!algorithm.supports({Collective::all_reduce, ranks, 0}, Layout::flat(ranks))) continue;
      SCOPED_TRACE(std::string(algorithm.name) + " on " + std::to_string(ranks));
      std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
      std::vector<double> exact(kCount);
      std::vector<std::vector<float>> inputs;
      std::mt19937_64 random(test::test_seed());
      std::normal_distribution<float> normal(0, 100);
      for (Rank rank = 0; rank < ranks; ++rank) {
        std::vector<float>& input = inputs.emplace_back(kCount);
        for (std::size_t i = 0; i < kCount; ++i) exact[i] += input[i] = normal(random);
      }
      RanksOptions options;
      options.settings.algorithm = algorithm.name;
      run_ranks(ranks, options, [&](Communicator& comm) {
        const auto me = static_cast<std::size_t>(comm.rank());
        results[me].resize(kCount);
        Request request;
        request.call = {
            .collective = Collective::all_reduce, .type = DataType::float32, .count = kCount};
        request.input = inputs[me].data();
        request.output = results[me].data();
        const Status status = comm.run(request);
        ASSERT_TRUE(status.ok()) << status.text();
      });
      if (HasFailure()) return;
      for (const auto& result : results) {
        const auto bits = [](const auto& of) { return std::as_bytes(std::span(of)); };
        ASSERT_TRUE(std::ranges::equal(bits(result), bits(results[0])));
        for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(result[i], exact[i], 1e-3 * ranks);
      }
    }
  }
}

/// Where the memory that ranks share is free, small pieces apart.
std::byte* free_place() {
  const Result<SharedArena*> arena = SharedArena::of_this_process();
  COLL_CHECK(arena.ok(), "no arena");
  const Result<std::byte*> block = (*arena)->allocate((std::size_t{2} << 20) - 1);
  COLL_CHECK(block.ok() && (*arena)->free(*block).ok(), "no memory");
  return *block;
}

/// A root may leave before the others have read what it wrote for all of them.
TEST(Broadcast, LeavesNoMemoryBehind) {
  constexpr std::uint64_t kCount = 64 << 10;
  RanksOptions options;
  options.transports = "shm";
  options.settings.algorithm = "linear";
  constexpr int kTries = 3, kFew = 5;  // on a machine that is busy some readers may be too late
  std::atomic<bool> staged{false};
  int left = kFew;
  for (int i = 0; i < kTries && left >= kFew && !HasFailure(); ++i) {
    left = 0;
    for (int round = 0; round < 20; ++round) {
      const std::byte* before = free_place();
      run_ranks(4, options, [&](Communicator& comm) {
        std::vector<std::byte> data(kCount, static_cast<std::byte>(comm.rank() + 1));
        Request request;
        request.call = {.collective = Collective::broadcast, .root = 0, .count = kCount};
        request.input = request.output = data.data();
        for (int call = 0; call < 3; ++call) {
          const Status status = comm.run(request);
          ASSERT_TRUE(status.ok()) << status.text();
        }
        EXPECT_EQ(data, std::vector(kCount, std::byte{1}));
        if (comm.rank() == 0 && free_place() > before) staged = true;
      });
      left += free_place() > before ? 1 : 0;
    }
  }
  if (!staged && !can_read_memory_of(memory_proof())) GTEST_SKIP() << "nothing can be lent here";
  EXPECT_TRUE(staged) << "else this test shows nothing";
  EXPECT_LT(left, kFew) << "of 20 rounds, in each try";
}

/// Who will never call again says so, and who staged for it need not wait.
TEST(Broadcast, LeavesNoMemoryBehindWhereNobodyReads) {
  constexpr std::uint64_t kCount = 64 << 10;
  RanksOptions options;
  options.transports = "shm";
  options.settings.algorithm = "linear";
  options.deadline_s = 5;  // where nothing can be lent the root waits for its readers
  int left = 0;
  for (int round = 0; round < 10; ++round) {
    const std::byte* before = free_place();
    std::latch over(1);
    run_ranks(4, options, [&](Communicator& comm) {
      std::vector<std::byte> data(kCount, static_cast<std::byte>(comm.rank() + 1));
      Request request;
      request.call = {.collective = Collective::broadcast, .root = 0, .count = kCount};
      request.input = request.output = data.data();
      for (int call = 0; call < (comm.rank() == 0 ? 2 : 1); ++call) {
        const Status status = comm.run(request);
        if (!status.ok()) {
          over.count_down(comm.rank() == 0 ? 1 : 0);
          GTEST_SKIP() << "nothing can be lent here: " << status.text();
        }
      }
      if (comm.rank() == 0) over.count_down();
      over.wait();
    });
    left += free_place() > before ? 1 : 0;
  }
  EXPECT_LT(left, 5) << "on a machine that is busy some ranks may end too late";
}

}  // namespace
}  // namespace coll::testing
