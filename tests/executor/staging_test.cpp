// SPDX-License-Identifier: Apache-2.0
// What several ranks get is written once, and stays until all of them have read it.
#include <optional>

#include "collectives/built.hpp"
#include "executor_calls.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

constexpr CollectiveSpec kBroadcast{Collective::broadcast, 3, 0};

/// With the root's loans counted, nothing else is lent.
ExecutorRanks::Settings staging(std::uint32_t credits = 2) {
  return {.script = {.least_loan = 1}, .credits = credits, .loans = Loans::none, .stages = true};
}

/// A call of one of the programs.
struct StagedJob {
  CollectiveSpec spec;
  std::uint64_t count = 0;
  std::size_t program = 0;
};

/// Each rank makes the calls one after the other at its own pace, and uses its memory again as soon
/// as its own part of one is over.
class AtOwnPace {
 public:
  AtOwnPace(ExecutorRanks& ranks, std::vector<StagedJob> jobs)
      : ranks_(&ranks),
        jobs_(std::move(jobs)),
        next_(static_cast<std::size_t>(jobs_[0].spec.ranks)),
        buffers_(next_.size()) {}

  /// One round of this rank; true if it has moved.
  bool step(std::size_t rank) {
    const std::size_t number = next_[rank];
    if (number == jobs_.size()) return false;
    const StagedJob& job = jobs_[number];
    if (!buffers_[rank]) {
      buffers_[rank].emplace(job.spec, rank, job.count, false, number);
      ranks_->start(rank, buffers_[rank]->call(number), job.program);
    }
    const bool moved = ranks_->progress(rank).poll();
    if (!ranks_->run(rank).done()) return moved;
    compare(buffers_[rank]->take(), job.spec, rank, job.count, number);
    buffers_[rank].reset();
    ++next_[rank];
    return true;
  }
  /// Calls that are over.
  [[nodiscard]] std::size_t calls(std::size_t rank) const { return next_[rank]; }
  [[nodiscard]] bool done() const {
    return std::ranges::all_of(next_, [this](std::size_t next) { return next == jobs_.size(); });
  }

  /// To the end: rank 0 as far ahead as it gets, the others one round now and then.
  void run(std::mt19937_64& random) {
    for (int round = 0; round < 1'000'000 && !done(); ++round) {
      while (step(0)) {
      }
      step(random() % next_.size());
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_TRUE(done()) << "no end in sight";
  }

 private:
  ExecutorRanks* ranks_;
  std::vector<StagedJob> jobs_;
  std::vector<std::size_t> next_;
  std::vector<std::optional<Buffers>> buffers_;
};

TEST(Staging, PlacesAreNotUsedAgainTooSoon) {
  std::mt19937_64 random(test::test_seed());
  for (const std::uint32_t credits : {2U, 3U, 5U}) {
    const std::size_t calls = std::size_t{6} * credits;
    ExecutorRanks ranks(build_all(*find_algorithm("linear"), kBroadcast), staging(credits));
    AtOwnPace pace(ranks, std::vector<StagedJob>(calls, {kBroadcast, 32}));
    while (pace.step(0)) {
    }
    EXPECT_EQ(pace.calls(0), credits) << "the root runs ahead of readers that stall";
    while (pace.step(1)) {
    }
    while (pace.step(0)) {
    }
    EXPECT_EQ(pace.calls(0), credits) << "one reader does not make room alone";
    pace.run(random);
    EXPECT_EQ(ranks.loans(), 2 * calls);
  }
}

/// The pages of a new place are new to all. So places that have been read are used again, but for a
/// new one after 16 messages each.
TEST(Staging, PlacesAreUsedBeforeNewOnes) {
  constexpr std::size_t kLines = 4;  // of a message
  ExecutorRanks ranks(build_all(*find_algorithm("linear"), kBroadcast), staging(3));
  AtOwnPace pace(ranks, std::vector<StagedJob>(100, {kBroadcast, 32}));
  const auto call = [&](std::initializer_list<std::size_t> of) {
    for (const std::size_t rank : of) {
      const std::size_t before = pace.calls(rank);
      for (int round = 0; round < 100 && pace.calls(rank) == before; ++round) pace.step(rank);
      ASSERT_EQ(pace.calls(rank), before + 1);
    }
  };
  for (int i = 0; i < 17; ++i) call({0, 1, 2});
  EXPECT_EQ(ranks.staged_lines(), kLines);
  call({0, 1, 2});
  EXPECT_EQ(ranks.staged_lines(), 2 * kLines) << "after many messages there is a second one";
  for (int i = 0; i < 3; ++i) call({0, 1, 2});
  EXPECT_EQ(ranks.staged_lines(), 2 * kLines);
  call({0, 1});
  call({0});
  call({2, 1, 2});
  EXPECT_EQ(ranks.staged_lines(), 3 * kLines) << "one has not read, and the second was the last";
  call({0, 1, 2});
  EXPECT_EQ(ranks.staged_lines(), 3 * kLines);
  call({0, 2});
  call({0, 2});
  call({0});
  call({1, 1, 1, 2});
  EXPECT_EQ(ranks.staged_lines(), 4 * kLines) << "the other one has not read";
  for (int i = 0; i < 40; ++i) call({0, 1, 2});
  EXPECT_EQ(ranks.staged_lines(), 4 * kLines) << "there are no more";
}

TEST(Staging, ProgramsMayTakeTurnsOnTheSameConnections) {
  const CollectiveSpec gather{Collective::all_gather, 3, 0};
  std::mt19937_64 random(test::test_seed());
  for (const FakeScript& script :
       {FakeScript{.least_loan = 1},
        FakeScript{.max_delay = 3, .max_refusals = 2, .vary_credits = true, .least_loan = 1}}) {
    for (int round = 0; round < 20; ++round) {
      ExecutorRanks::Settings settings = staging(2 + static_cast<std::uint32_t>(random() % 3));
      settings.script = script;
      settings.script.seed = random();
      ExecutorRanks ranks(build_all(*find_algorithm("linear"), kBroadcast), settings,
                          build_all(*find_algorithm("one_shot"), gather));
      std::vector<StagedJob> jobs;
      for (int call = 0; call < 60; ++call) {
        const std::size_t program = random() % 2;
        jobs.push_back({program == 0 ? kBroadcast : gather, random() % 100, program});
      }
      AtOwnPace(ranks, jobs).run(random);
      EXPECT_GT(ranks.loans(), 100U);
      if (HasFailure()) return;
    }
  }
}

TEST(Staging, SomeReadersMayHaveToDoWithout) {
  const CollectiveSpec spec{Collective::broadcast, 4, 0};
  std::mt19937_64 random(test::test_seed());
  for (const Rank other : {1, 2, 3}) {
    ExecutorRanks::Settings settings = staging(3);
    settings.script.least_loan_to = {{other, ~std::size_t{0}}};
    ExecutorRanks ranks(build_all(*find_algorithm("linear"), spec), settings);
    AtOwnPace(ranks, std::vector<StagedJob>(20, {spec, 70})).run(random);
    // Three windows a call. The first reader is the one for whom a message is staged.
    EXPECT_EQ(ranks.loans(), other == 1 ? 0U : 20U * 3 * 2) << "but for rank " << other;
  }
}

/// The last window of a call may be too short to be staged.
TEST(Staging, LongAndShortMessagesTakeTurns) {
  std::mt19937_64 random(test::test_seed());
  ExecutorRanks::Settings settings = staging(3);
  settings.least_staged = 2 * 180;
  ExecutorRanks ranks(build_all(*find_algorithm("linear"), kBroadcast), settings);
  // Two windows of 24 elements and one of 22; or one of 5.
  std::vector<StagedJob> jobs;
  for (int call = 0; call < 40; ++call) {
    jobs.push_back({kBroadcast, call % 4 == 3 ? std::uint64_t{5} : std::uint64_t{70}});
  }
  AtOwnPace(ranks, jobs).run(random);
  EXPECT_EQ(ranks.loans(), 30U * 2 * 2);
}

/// A place that cannot be lent is passed over, and the next one used again.
TEST(Staging, GoesOnAfterAPlaceThatCannotBeLent) {
  std::mt19937_64 random(test::test_seed());
  ExecutorRanks::Settings settings = staging(4);
  settings.script.loan_window = 1024;  // the fourth of five places lies in two
  ExecutorRanks ranks(build_all(*find_algorithm("linear"), kBroadcast), settings);
  AtOwnPace(ranks, std::vector<StagedJob>(50, {kBroadcast, 32})).run(random);
  EXPECT_EQ(ranks.loans(), 2 * (50 - 50 / 5));
}

TEST(Staging, NeedsMemory) {
  std::mt19937_64 random(test::test_seed());
  ExecutorRanks::Settings settings = staging();
  settings.has_memory = false;
  ExecutorRanks ranks(build_all(*find_algorithm("linear"), kBroadcast), settings);
  AtOwnPace(ranks, std::vector<StagedJob>(10, {kBroadcast, 70})).run(random);
  EXPECT_EQ(ranks.loans(), 0U);
}

/// A root's call and communicator may be over before anyone reads what it sent.
TEST(Staging, PlacesStayWhileTheyAreRead) {
  enum class Drop : std::uint8_t { before_they_read, when_one_is_gone, afterwards };
  for (const Drop drop : {Drop::before_they_read, Drop::when_one_is_gone, Drop::afterwards}) {
    ExecutorRanks ranks(build_all(*find_algorithm("linear"), kBroadcast), staging());
    AtOwnPace pace(ranks, {{kBroadcast, 3}});
    ASSERT_TRUE(pace.step(0));
    ASSERT_EQ(pace.calls(0), 1U) << "who stages need not wait for its readers";
    if (drop == Drop::before_they_read) ranks.drop_program(0);
    EXPECT_EQ(ranks.freed(), 0);
    EXPECT_TRUE(pace.step(1));
    if (drop == Drop::when_one_is_gone) {
      ranks.drop(2);
    } else {
      EXPECT_TRUE(pace.step(2));
      EXPECT_TRUE(pace.done());
    }
    if (drop != Drop::before_they_read) ranks.drop_program(0);
    EXPECT_EQ(ranks.freed(), drop == Drop::before_they_read ? 0 : 1);
  }
}

/// A call that fails takes back what is its user's, and nothing of calls before.
TEST(Staging, OutlivesALaterCallThatFails) {
  const CollectiveSpec scatter{Collective::scatter, 3, 0};
  for (const bool lends : {false, true}) {
    ExecutorRanks ranks(build_all(*find_algorithm("linear"), kBroadcast), staging(),
                        build_all(*find_algorithm("linear"), scatter), Loans::all);
    const StagedJob broadcast{kBroadcast, 3};
    const StagedJob failing = lends ? StagedJob{scatter, 3, 1} : broadcast;
    AtOwnPace pace(ranks, {broadcast, failing});
    ASSERT_TRUE(pace.step(0));
    ASSERT_EQ(pace.calls(0), 1U);
    pace.step(0);
    EXPECT_EQ(pace.calls(0), lends ? 1U : 2U) << "what is the user's keeps the call from its end";
    ranks.progress(0).abandon(ranks.run(0));
    for (const std::size_t reader : {1U, 2U}) {
      pace.step(reader);
      EXPECT_EQ(pace.calls(reader), 1U);
      pace.step(reader);
      EXPECT_EQ(pace.calls(reader), lends ? 1U : 2U);
      if (!lends) continue;
      const Connection* const failed = ranks.failure(reader);
      ASSERT_NE(failed, nullptr);
      EXPECT_EQ(failed->status().code(), Code::peer_lost);
    }
  }
}

}  // namespace
}  // namespace coll::testing
