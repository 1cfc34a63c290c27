// SPDX-License-Identifier: Apache-2.0
// Several calls in flight at once give the right results, in any order of progress.
#include <array>
#include <deque>
#include <optional>

#include "collectives/built.hpp"
#include "executor_calls.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

struct Job {
  std::size_t program = 0;
  std::uint64_t count = 0;
  bool in_place = false;
};

/// One rank with up to `most` calls in flight. All ranks begin the same calls in the same order,
/// each when it likes.
class RankInFlight {
 public:
  RankInFlight(ExecutorRanks& ranks, std::size_t rank, const std::vector<CollectiveSpec>& specs,
               const std::vector<Job>& jobs, std::size_t most)
      : ranks_(&ranks), rank_(rank), specs_(&specs), jobs_(&jobs), most_(most) {}

  [[nodiscard]] bool over() const { return next_ == jobs_->size() && open_.empty(); }
  /// Calls that ended before one that was begun earlier.
  [[nodiscard]] int overtaken() const { return overtaken_; }

  void begin_another() {
    if (next_ == jobs_->size() || open_.size() == most_) return;
    const Job& job = (*jobs_)[next_];
    auto call = take_spare();
    call->number = next_++;
    call->buffers.emplace((*specs_)[job.program], rank_, job.count, job.in_place, call->number);
    ranks_->begin(rank_, call->run, call->buffers->call(call->number), job.program);
    open_.push_back(std::move(call));
    settle();  // a rank that has no part in a call ends it here
  }
  void poll() {
    ranks_->progress(rank_).poll();
    settle();
  }

 private:
  struct Open {
    Run run;
    std::optional<Buffers> buffers;
    std::uint64_t number = 0;
  };

  std::unique_ptr<Open> take_spare() {
    if (spare_.empty()) return std::make_unique<Open>();
    auto one = std::move(spare_.back());
    spare_.pop_back();
    return one;
  }
  void settle() {
    for (std::size_t i = 0; i < open_.size();) {
      if (!open_[i]->run.done()) {
        ++i;
        continue;
      }
      if (i > 0) ++overtaken_;
      Open& ended = *open_[i];
      const Job& job = (*jobs_)[ended.number];
      compare(ended.buffers->take(), (*specs_)[job.program], rank_, job.count, ended.number);
      spare_.push_back(std::move(open_[i]));
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  ExecutorRanks* ranks_;
  std::size_t rank_;
  const std::vector<CollectiveSpec>* specs_;
  const std::vector<Job>* jobs_;
  std::size_t most_;
  std::size_t next_ = 0;
  int overtaken_ = 0;
  std::deque<std::unique_ptr<Open>> open_;
  std::vector<std::unique_ptr<Open>> spare_;
};

struct Chosen {
  const Algorithm* algorithm = nullptr;
  CollectiveSpec spec;
};

Chosen choose(Rank size, std::mt19937_64& random) {
  while (true) {
    const Algorithm& algorithm = algorithms()[random() % algorithms().size()];
    const CollectiveSpec spec{static_cast<Collective>(random() % kCollectives), size,
                              static_cast<Rank>(random() % static_cast<unsigned>(size))};
    if (spec.collective == Collective::send || spec.collective == Collective::recv) continue;
    if (algorithm.supports(spec, Layout::flat(size))) return {&algorithm, spec};
  }
}

TEST(InFlight, CallsOfTwoProgramsOverTheSameConnectionsKeepTheirOrder) {
  std::mt19937_64 random(test::test_seed());
#ifdef TRY_LESS
  constexpr int kRounds = 120;
#else
  constexpr int kRounds = 400;
#endif
  int overtaken = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto size = static_cast<Rank>(2 + random() % 6);
    const Chosen one = choose(size, random), other = choose(size, random);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + describe(*one.algorithm, one.spec) +
                 " and " + describe(*other.algorithm, other.spec));
    ExecutorRanks::Settings settings;
    settings.script.seed = random();
    settings.script.max_delay = random() % 2 == 0 ? 3 : 0;
    settings.script.max_refusals = random() % 2 == 0 ? 2 : 0;
    settings.script.least_loan = random() % 2 == 0 ? 1 : settings.script.least_loan;
    settings.script.least_landing = random() % 2 == 0 ? 1 : settings.script.least_landing;
    settings.copies = 1 + static_cast<std::uint32_t>(random() % 3);
    settings.credits = kLeastCredits + static_cast<std::uint32_t>(random() % 3);
    settings.slice_bytes = 64U << (random() % 4);
    settings.stages = random() % 2 == 0;
    settings.loans = settings.stages ? Loans::none : Loans::all;
    ExecutorRanks ranks(build_all(*one.algorithm, one.spec), settings,
                        build_all(*other.algorithm, other.spec), Loans::none);
    const std::vector<CollectiveSpec> specs{one.spec, other.spec};
    std::vector<Job> jobs(20);
    for (Job& job : jobs) job = {random() % 2, random() % 200, random() % 3 == 0};
    std::deque<RankInFlight> all;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
      all.emplace_back(ranks, rank, specs, jobs, 1 + random() % 5);
    }
    const auto over = [&] { return std::ranges::all_of(all, &RankInFlight::over); };
    for (std::uint64_t turn = 0; !over(); ++turn) {
      ASSERT_LT(turn, 5'000'000U) << "no end in sight";
      RankInFlight& rank = all[random() % all.size()];
      if (random() % 4 == 0) {
        rank.begin_another();
      } else {
        rank.poll();
      }
      if (HasFatalFailure()) return;
    }
    for (const RankInFlight& rank : all) overtaken += rank.overtaken();
    if (HasFailure()) return;
  }
  EXPECT_GT(overtaken, 0) << "calls on other connections need not wait for each other";
}

/// A call passes a direction on with its last message there, so the next call's messages are under
/// way before the first call has ended.
TEST(InFlight, ALaterCallSendsBeforeTheEarlierOneHasReceived) {
  for (Rank size = 2; size <= 5; ++size) {
    const CollectiveSpec spec{Collective::all_reduce, size, 0};
    ExecutorRanks ranks(build_all(*find_algorithm("one_shot"), spec), {.script = {}, .credits = 2});
    const auto last = static_cast<std::size_t>(size) - 1;
    std::vector<std::array<coll::Run, 2>> runs(last + 1);
    std::deque<Buffers> buffers;
    for (std::size_t rank = 0; rank <= last; ++rank) {
      for (std::uint64_t call = 0; call < 2; ++call) {
        buffers.emplace_back(spec, rank, 4, false, call);
        ranks.begin(rank, runs[rank][call], buffers.back().call(call + 1));
      }
      ranks.progress(rank).poll();
    }
    EXPECT_FALSE(runs[0][0].done()) << "the last rank had sent nothing";
    ranks.progress(last).poll();
    EXPECT_TRUE(runs[last][0].done() && runs[last][1].done())
        << "not all others have sent for both calls";
    for (std::size_t rank = 0; rank < last; ++rank) {
      ranks.progress(rank).poll();
      ranks.progress(rank).poll();
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      ASSERT_TRUE(runs[i / 2][i % 2].done());
      compare(buffers[i].take(), spec, i / 2, 4, i % 2);
    }
  }
}

/// The root of a long broadcast could send as many passes as there are credits.
TEST(InFlight, APollOfARunByPassEndsWithThePass) {
  const CollectiveSpec spec{Collective::broadcast, 2, 0};
  constexpr std::uint64_t kCount = 1000;
  for (const bool by_pass : {false, true}) {
    ExecutorRanks ranks(build_all(*find_algorithm("chain"), spec), {.script = {}, .credits = 4});
    std::deque<Buffers> buffers;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      buffers.emplace_back(spec, rank, kCount, false, 1);
      ranks.start(rank, buffers.back().call(1));
      ranks.run(rank).by_pass = by_pass;
    }
    const std::uint64_t passes = ranks.run(0).extents.windows.passes;
    ASSERT_GT(passes, 8U);
    ranks.progress(0).poll();
    EXPECT_EQ(ranks.run(0).lanes[0].pass, by_pass ? 1U : 4U);
    for (std::uint64_t turn = 0; turn < 2 * passes; ++turn) ranks.progress(turn % 2).poll();
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(ranks.run(rank).done());
      compare(buffers[rank].take(), spec, rank, kCount, 1);
    }
  }
}

/// A call ends when its own loans are read. The peer may read those of a later call only after it
/// has seen the earlier one's end.
TEST(InFlight, ACallEndsAlthoughALaterOnesLoansAreUnread) {
  const CollectiveSpec spec{Collective::broadcast, 2, 0};
  ExecutorRanks ranks(build_all(*find_algorithm("chain"), spec), {.script = {.least_loan = 1}});
  std::array<Buffers, 4> buffers{Buffers(spec, 0, 4, false, 1), Buffers(spec, 0, 4, false, 2),
                                 Buffers(spec, 1, 4, false, 1), Buffers(spec, 1, 4, false, 2)};
  std::array<coll::Run, 4> runs;
  const auto begin = [&](std::size_t rank, std::size_t call) {
    ranks.begin(rank, runs[2 * rank + call], buffers[2 * rank + call].call(call + 1));
    ranks.progress(rank).poll();
  };
  begin(0, 0);
  begin(0, 1);
  ASSERT_EQ(ranks.loans(), 2U);
  EXPECT_FALSE(runs[0].done());
  begin(1, 0);
  EXPECT_TRUE(runs[2].done());
  ranks.progress(0).poll();
  EXPECT_TRUE(runs[0].done()) << "its loan was read";
  EXPECT_FALSE(runs[1].done()) << "nobody has read its loan";
  begin(1, 1);
  ranks.progress(0).poll();
  EXPECT_TRUE(runs[1].done() && runs[3].done());
  compare(buffers[2].take(), spec, 1, 4, 1);
  compare(buffers[3].take(), spec, 1, 4, 2);
}

/// The root lends to both ranks in the first call, and in the second to rank 2 only.
TEST(InFlight, ACallEndsAlthoughAnEarlierOnesLoansAreUnread) {
  const CollectiveSpec spec{Collective::broadcast, 3, 0};
  constexpr std::uint64_t kLong = 32, kShort = 1;
  ExecutorRanks ranks(
      build_all(*find_algorithm("linear"), spec),
      {.script = {.least_loan = 1, .least_loan_to = {{1, kLong * 8}}}, .credits = 4});
  std::array<coll::Run, 6> runs;
  std::deque<Buffers> buffers;
  const auto begin = [&](std::size_t rank, std::uint64_t call) {
    buffers.emplace_back(spec, rank, call == 0 ? kLong : kShort, false, call);
    ranks.begin(rank, runs[2 * rank + call], buffers.back().call(call + 1));
    ranks.progress(rank).poll();
  };
  begin(0, 0);
  ASSERT_EQ(ranks.loans(), 2U);
  begin(0, 1);
  ASSERT_EQ(ranks.loans(), 3U);
  begin(2, 0);
  begin(2, 1);
  EXPECT_TRUE(runs[4].done() && runs[5].done());
  ranks.progress(0).poll();
  EXPECT_FALSE(runs[0].done()) << "rank 1 has not read its loan";
  EXPECT_TRUE(runs[1].done()) << "it lent nothing to rank 1";
  begin(1, 0);
  begin(1, 1);
  ranks.progress(0).poll();
  EXPECT_TRUE(std::ranges::all_of(runs, &coll::Run::done));
}

/// Also what a lane sent that was done before another call came.
TEST(InFlight, ACallThatHasEndedLeavesNothingToSend) {
  std::mt19937_64 random(test::test_seed());
  const CollectiveSpec spec{Collective::broadcast, 2, 0}, back{Collective::broadcast, 2, 1};
  const Algorithm& chain = *find_algorithm("chain");
  constexpr std::uint64_t kCount = 96;  // six messages of each lane
  int met = 0;
  for (int round = 0; round < 300; ++round) {
    ExecutorRanks ranks(
        build_all(chain, spec),
        {.script = {.seed = random(), .max_delay = 20}, .copies = 2, .slice_bytes = 64},
        build_all(chain, back));
    Buffers sent(spec, 0, kCount, false), got(spec, 1, kCount, false), later(back, 0, 1, false);
    coll::Run sending, receiving, waiting;
    ranks.begin(0, sending, sent.call(1));
    ranks.begin(1, receiving, got.call(1));
    const auto poll_until = [&](const auto& done) {
      for (int turn = 0; turn < 10'000 && !done(); ++turn) ranks.progress(random() % 2).poll();
    };
    poll_until([&] { return sending.left < 2; });
    if (sending.left == 1) {
      ++met;
      ranks.begin(0, waiting, later.call(2), 1);
    }
    poll_until([&] { return sending.done(); });
    ASSERT_TRUE(sending.done());
    for (int turn = 0; turn < 1000 && !receiving.done(); ++turn) ranks.progress(1).poll();
    ASSERT_TRUE(receiving.done()) << "round " << round;
    compare(got.take(), spec, 1, kCount);
  }
  EXPECT_GT(met, 0);
}

/// Both send first: what each sends must not wait for the other's receiving, nor receiving for
/// sending.
TEST(InFlight, TwoRanksThatBothSendFirstGetThrough) {
  std::mt19937_64 random(test::test_seed());
  const auto schedule_of = [](Collective collective, Rank self) {
    const CollectiveSpec spec{collective, 2, 1 - self};
    return find_algorithm("direct")->build(spec, Layout::flat(2), self);
  };
  ExecutorRanks::Settings settings;
  settings.credits = 2;
  settings.slice_bytes = 64;
  ExecutorRanks ranks({schedule_of(Collective::send, 0), schedule_of(Collective::send, 1)},
                      settings,
                      {schedule_of(Collective::recv, 0), schedule_of(Collective::recv, 1)});
  constexpr std::size_t kCount = 1000;  // far more than the credits hold
  std::vector<Elements> from(2, Elements(kCount)), into(2, Elements(kCount, -1));
  std::array<coll::Run, 4> runs;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (std::size_t i = 0; i < kCount; ++i) from[rank][i] = input_at(rank, i, 0);
    CallBinding call;
    call.count = kCount;
    call.element_bytes = 8;
    call.apart = true;
    call.digest = 1;
    call.input = reinterpret_cast<const std::byte*>(from[rank].data());
    ranks.begin(rank, runs[2 * rank], call, 0);
    call.input = nullptr;
    call.output = reinterpret_cast<std::byte*>(into[rank].data());
    ranks.begin(rank, runs[2 * rank + 1], call, 1);
  }
  const auto over = [&] { return std::ranges::all_of(runs, &coll::Run::done); };
  for (int turn = 0; !over() && turn < 1'000'000; ++turn) ranks.progress(random() % 2).poll();
  ASSERT_TRUE(over()) << "they wait for each other";
  EXPECT_EQ(into[0], from[1]);
  EXPECT_EQ(into[1], from[0]);
}

}  // namespace
}  // namespace coll::testing
