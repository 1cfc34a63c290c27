// SPDX-License-Identifier: Apache-2.0
// Fused kernels in flight one behind the other, abandoned, and what their executors refuse.
#include <deque>

#include "fused_ranks.hpp"
#include "stream_calls.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

constexpr std::uint64_t kLong = 4000;

/// Begins the calls of each rank one behind the other, and waits for all of them.
struct ManyCalls {
  struct Part {
    std::size_t rank, which;
    std::uint64_t count;
  };
  std::deque<RankCall> calls;
  std::vector<Part> parts;

  void run(FusedRanks& ranks) {
    as_threads(ranks.size(), [&](std::size_t r) {
      for (std::size_t i = 0; i < calls.size(); ++i)
        if (parts[i].rank == r) ranks.progress(r).begin(calls[i].run);
      for (std::size_t i = 0; i < calls.size(); ++i)
        if (parts[i].rank == r && !ranks.poll_until_done(r, calls[i].run)) return;
    });
  }
};

/// Calls of three programs on the same connections, that nobody waits for: by lines, by slots, and
/// by shares of slots, whose messages must not meet.
TEST(FusedOrder, ManyCallsInFlight) {
  const OnDevice device;
  std::mt19937_64 random(test::test_seed());
  constexpr std::size_t kRanks = 4, kCalls = 12;
  const CollectiveSpec specs[] = {{Collective::all_reduce, kRanks, 0},
                                  {Collective::all_to_all, kRanks, 0},
                                  {Collective::all_reduce, kRanks, 0},
                                  {Collective::all_gather, kRanks, 0}};
  const char* const names[] = {"ring", "linear", "double_binary_tree", "bruck"};
  std::vector<std::vector<Schedule>> lists;
  for (std::size_t i = 0; i < std::size(specs); ++i)
    lists.push_back(build_all(*find_algorithm(names[i]), specs[i]));
  FusedShape shape;
  shape.most_short = 512;
  shape.least_share = 32;
  FusedRanks ranks(kRanks, shape);
  for (int round = 0; round < 8; ++round) {
    FusedPrograms::Settings settings;
    settings.copies = 1 + static_cast<std::uint32_t>(random() % 2);
    settings.credits = kLeastCredits + static_cast<std::uint32_t>(random() % 3);
    settings.slice_bytes = 1024;
    FusedPrograms programs(ranks, lists, settings);
    ManyCalls many;
    for (std::size_t number = 0; number < kCalls; ++number) {
      const std::size_t which = random() % std::size(specs);
      const std::uint64_t count = random() % (random() % 2 == 0 ? 30 : 300);
      const bool in_place = random() % 2 == 0;
      for (std::size_t r = 0; r < kRanks; ++r) {
        many.calls.emplace_back(specs[which], r, count, in_place, number)
            .bind(programs.program(r, which));
        many.parts.push_back({r, which, count});
      }
    }
    many.run(ranks);
    if (HasFailure()) return;
    for (std::size_t i = 0; i < many.calls.size(); ++i) {
      const auto& [rank, which, count] = many.parts[i];
      many.calls[i].expect_result(specs[which], rank, count, i / kRanks);
    }
    programs.network().expect_at_rest();
    if (HasFailure()) return;
  }
}

/// Peers that never come: the kernels that wait for them end at once, in whatever order runs are
/// abandoned, and then touch the buffers no more.
TEST(FusedOrder, AbandonedRunsEnd) {
  const OnDevice device;
  const CollectiveSpec spec{Collective::all_reduce, 3, 0};
  const FusedShape shapes[] = {shape_of_lines(), shape_of_slots(), shape_of_shares()};
  for (int turn = 0; turn < 6; ++turn) {
    const bool in_order = turn % 2 == 0;
    FusedRanks ranks(3, shapes[turn / 2]);
    FusedPrograms programs(ranks,
                           {schedules_of("ring", Collective::all_reduce, 3),
                            schedules_of("double_binary_tree", Collective::all_reduce, 3)},
                           {2, 2, 1024});
    std::deque<RankCall> calls;
    for (std::size_t i = 0; i < 4; ++i) {
      RankCall& call = calls.emplace_back(spec, 0, kLong, true, i);
      call.bind(programs.program(0, i % 2));
      ranks.progress(0).begin(call.run);
    }
    for (int i = 0; i < 100; ++i) ranks.progress(0).poll();
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < calls.size(); ++i) {
      RankCall& call = calls[in_order ? i : calls.size() - 1 - i];
      EXPECT_FALSE(call.run.done());
      ranks.progress(0).abandon(call.run);
      const std::vector<std::int64_t> mine(kLong, 99);
      call.arena.write(mine.data(), kLong * 8);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2)) << "it gave up";
    EXPECT_TRUE(ranks.progress(0).idle());
    for (RankCall& call : calls) {
      std::vector<std::int64_t> now(kLong);
      call.arena.read(now.data(), kLong * 8);
      EXPECT_TRUE(std::ranges::all_of(now, [](std::int64_t x) { return x == 99; }));
    }
    // The executors go on, with other connections.
    FusedPrograms again(ranks, {schedules_of("ring", Collective::all_reduce, 3)}, {});
    std::deque<RankCall> after;
    for (std::size_t r = 0; r < 3; ++r) {
      after.emplace_back(spec, r, 100, true, 1).bind(again.program(r));
      ranks.progress(r).begin(after[r].run);
    }
    for (std::size_t r = 0; r < 3; ++r) {
      ASSERT_TRUE(ranks.poll_until_done(r, after[r].run));
      after[r].expect_result(spec, r, 100, 1);
    }
  }
}

/// To abandon a run ends those before it too. They say so, and never that they were done.
TEST(FusedOrder, ARunThatWasEndedWithAnotherFails) {
  const OnDevice device;
  const CollectiveSpec spec{Collective::all_reduce, 2, 0};
  FusedRanks ranks(2, shape_of_lines());
  FusedPrograms programs(ranks, {schedules_of("recursive_doubling", Collective::all_reduce, 2)},
                         {});
  RankCall first(spec, 0, 100, true, 1), second(spec, 0, 100, true, 1);
  first.bind(programs.program(0));
  second.bind(programs.program(0));
  ranks.progress(0).begin(first.run);
  ranks.progress(0).begin(second.run);
  ranks.progress(0).abandon(second.run);
  for (int i = 0; i < 10; ++i) ranks.progress(0).poll();
  EXPECT_FALSE(first.run.done());
  ASSERT_FALSE(first.run.failure.ok());
  EXPECT_EQ(first.run.failure.failure()->code, Code::aborted);
  ranks.progress(0).abandon(first.run);
}

/// The kernel has ended, the processor not: the run goes on until its own messages are settled.
TEST(FusedOrder, ARunEndsWhenItsPortsAreSettled) {
  const OnDevice device;
  constexpr std::uint64_t kCount = 50;
  const CollectiveSpec spec{Collective::all_reduce, 2, 0};
  FusedRanks ranks(2, usual_shape());
  FusedPrograms programs(ranks, {schedules_of("recursive_doubling", Collective::all_reduce, 2)},
                         {});
  std::deque<RankCall> first, second;
  const auto begin = [&](std::deque<RankCall>& calls) {
    for (std::size_t r = 0; r < 2; ++r) {
      calls.emplace_back(spec, r, kCount, true, 1).bind(programs.program(r));
      ranks.progress(r).begin(calls[r].run);
    }
  };
  const auto until_moved = [&](std::deque<RankCall>& calls) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (std::size_t r = 0; r < 2; ++r) {
      while (calls[r].run.left != 0 && std::chrono::steady_clock::now() < deadline)
        ranks.progress(r).poll();
      EXPECT_EQ(calls[r].run.left, 0U);
    }
  };
  programs.network().for_each_port([](LoopPort& port) { port.settled_up_to = port.messages; });
  begin(first);
  until_moved(first);
  for (std::size_t r = 0; r < 2; ++r) {
    for (int i = 0; i < 10; ++i) ranks.progress(r).poll();
    EXPECT_FALSE(first[r].run.done());
  }
  std::map<LoopPort*, Mark> behind_first;
  programs.network().for_each_port([&](LoopPort& port) {
    EXPECT_GT(port.looks, 10U);
    behind_first[&port] = port.messages;
  });
  begin(second);
  for (std::size_t r = 0; r < 2; ++r) {
    for (int i = 0; i < 10; ++i) ranks.progress(r).poll();
    EXPECT_FALSE(first[r].run.done()) << "a later run says nothing of it";
  }
  for (auto& [port, mark] : behind_first) port->settled_up_to = mark;
  for (std::size_t r = 0; r < 2; ++r) EXPECT_TRUE(ranks.poll_until_done(r, first[r].run));
  until_moved(second);
  for (std::size_t r = 0; r < 2; ++r) EXPECT_FALSE(second[r].run.done());
  programs.network().for_each_port([](LoopPort& port) { port.settled_up_to = port.messages; });
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_TRUE(ranks.poll_until_done(r, second[r].run));
    second[r].expect_result(spec, r, kCount, 1);
  }
}

/// As if so many messages had passed over all connections, which rest.
void set_numbers(FusedPrograms& programs, const KernelCount& count) {
  programs.network().for_each_port([&](LoopPort& port) {
    const std::vector<std::uint32_t> read(KernelRing::kShares, count.messages);
    EXPECT_CUDA_OK(cuMemcpyHtoD_v2(port.sending().kernels.count, &count, sizeof count));
    EXPECT_CUDA_OK(cuMemcpyHtoD_v2(port.receiving().kernels.count, &count, sizeof count));
    EXPECT_CUDA_OK(cuMemcpyHtoD_v2(port.sending().kernels.read, read.data(), 4 * read.size()));
  });
}

/// Numbers of messages go round, in the middle of calls too.
TEST(FusedOrder, NumbersOfMessagesGoRound) {
  const OnDevice device;
  constexpr std::size_t kRanks = 3;
  const CollectiveSpec spec{Collective::all_reduce, kRanks, 0};
  for (const FusedShape& shape : {shape_of_lines(), shape_of_slots(), shape_of_shares()}) {
    FusedRanks ranks(kRanks, shape);
    FusedPrograms programs(ranks, {schedules_of("ring", Collective::all_reduce, kRanks)},
                           {1, 3, 1024});
    const std::uint32_t before = 0U - 5;
    set_numbers(programs, {before, 1});
    for (std::uint64_t turn = 0; turn < 3; ++turn) {
      std::deque<RankCall> calls;
      for (std::size_t r = 0; r < kRanks; ++r) {
        calls.emplace_back(spec, r, 1000, true, turn).bind(programs.program(r));
        ranks.progress(r).begin(calls[r].run);
      }
      for (std::size_t r = 0; r < kRanks; ++r) {
        ASSERT_TRUE(ranks.poll_until_done(r, calls[r].run));
        calls[r].expect_result(spec, r, 1000, turn);
      }
    }
    programs.network().for_each_port([&](LoopPort& port) {
      // Only one way round is used.
      if (port.sent.empty()) return;
      KernelCount count;
      EXPECT_CUDA_OK(cuMemcpyDtoH_v2(&count, port.sending().kernels.count, sizeof count));
      EXPECT_EQ(count.messages, before + static_cast<std::uint32_t>(port.sent.size()));
      EXPECT_EQ(count.slot, (1 + port.sent.size()) % 3);
    });
  }
}

/// So that no line of an older round ever looks new, now and then all lines of a slot are written.
TEST(FusedOrder, AllLinesAreWrittenNowAndThen) {
  const OnDevice device;
  const CollectiveSpec spec{Collective::all_reduce, 2, 0};
  for (const bool one_shot : {false, true}) {
    FusedRanks ranks(2, one_shot ? usual_shape() : shape_of_lines());
    FusedPrograms programs(ranks, {schedules_of("one_shot", Collective::all_reduce, 2)},
                           {1, 2, 1024});
    ASSERT_EQ(programs.program(0).one_shot, one_shot);
    const std::uint32_t before = (1U << 30) - 1;
    set_numbers(programs, {before, 0});
    std::deque<RankCall> calls;
    for (int turn = 0; turn < 2; ++turn) {  // both slots
      for (std::size_t r = 0; r < 2; ++r)
        calls.emplace_back(spec, r, 3, true, 1).bind(programs.program(r));
    }
    for (std::size_t i = 0; i < calls.size(); ++i) ranks.progress(i % 2).begin(calls[i].run);
    for (std::size_t i = 0; i < calls.size(); ++i)
      ASSERT_TRUE(ranks.poll_until_done(i % 2, calls[i].run));
    programs.network().for_each_port([&](LoopPort& port) {
      std::vector<std::uint32_t> lines(2UL * KernelRing::kShortBytes / 4 * 2);
      EXPECT_CUDA_OK(
          cuMemcpyDtoH_v2(lines.data(), port.receiving().kernels.lines, 4 * lines.size()));
      for (std::size_t i = 1; i < lines.size(); i += 2)
        ASSERT_EQ(lines[i], before + (i < lines.size() / 2 ? 1 : 2)) << "word " << i;
    });
  }
}

/// The same of the words of shares, also of those that have nothing.
TEST(FusedOrder, AllWordsAreWrittenNowAndThen) {
  const OnDevice device;
  const CollectiveSpec spec{Collective::all_reduce, 2, 0};
  FusedRanks ranks(2, shape_of_shares());
  FusedPrograms programs(ranks, {schedules_of("recursive_doubling", Collective::all_reduce, 2)},
                         {1, 2, 1024});
  constexpr std::uint32_t kRenews = 1U << 30;
  set_numbers(programs, {kRenews - 2, 0});
  std::deque<RankCall> calls;
  for (std::size_t r = 0; r < 2; ++r) {
    calls.emplace_back(spec, r, 131, true, 1).bind(programs.program(r));
    ranks.progress(r).begin(calls[r].run);
  }
  // Its second message has fewer shares than its first.
  ASSERT_EQ(calls[0].run.extents.windows.passes, 2U);
  for (std::size_t r = 0; r < 2; ++r) {
    ASSERT_TRUE(ranks.poll_until_done(r, calls[r].run));
    calls[r].expect_result(spec, r, 131, 1);
  }
  programs.network().for_each_port([&](LoopPort& port) {
    constexpr std::uint32_t kOfSlot = KernelRing::kShares * KernelRing::kWordBytes / 4;
    std::vector<std::uint32_t> words(std::size_t{2} * kOfSlot);
    EXPECT_CUDA_OK(cuMemcpyDtoH_v2(words.data(), port.receiving().kernels.ready, 4 * words.size()));
    for (std::uint32_t share = 0; share < KernelRing::kShares; ++share)
      EXPECT_EQ(words[kOfSlot + share * KernelRing::kWordBytes / 4], kRenews) << share;
  });
}

/// Programs that are too long for the kernel's arguments lie in memory of the device.
TEST(FusedOrder, LongProgramsLieInMemory) {
  const OnDevice device;
  constexpr std::size_t kRanks = 8;
  const CollectiveSpec spec{Collective::all_reduce, kRanks, 0};
  FusedRanks ranks(kRanks, shape_of_lines());
  for (const char* const name : {"recursive_doubling", "two_shot"}) {
    FusedPrograms programs(ranks, {schedules_of(name, Collective::all_reduce, kRanks)},
                           {name[0] == 't' ? 4U : 1U, 2, 256});
    EXPECT_EQ(programs.program(0).arguments.image != 0, name[0] == 't') << name;
    std::deque<RankCall> calls;
    for (std::size_t r = 0; r < kRanks; ++r) {
      calls.emplace_back(spec, r, 700, false, 1).bind(programs.program(r));
      ranks.progress(r).begin(calls[r].run);
    }
    for (std::size_t r = 0; r < kRanks; ++r) {
      ASSERT_TRUE(ranks.poll_until_done(r, calls[r].run));
      calls[r].expect_result(spec, r, 700, 1);
    }
  }
}

/// More steps than a block fetches at once.
TEST(FusedOrder, LanesOfManySteps) {
  const OnDevice device;
  constexpr Rank kParts = 150;
  const CollectiveSpec spec{Collective::broadcast, 2, 0};
  std::vector<Schedule> schedules;
  for (const Rank rank : {0, 1}) {
    Schedule& made = schedules.emplace_back(start_schedule("parts", spec, rank, kParts));
    LaneBuilder lane(made.lanes[0]);
    for (std::uint32_t part = 0; part < kParts; ++part) {
      if (rank == 0) {
        lane.copy_send(input(part), output(part), 1);
      } else {
        lane.receive(0, output(part));
      }
    }
  }
  for (const FusedShape& shape : {shape_of_lines(), shape_of_shares()}) {
    FusedRanks ranks(2, shape);
    FusedPrograms programs(ranks, {schedules}, {2, 3, 64});
    for (const std::uint64_t count : {100UL, 5000UL, 7777UL}) {
      std::deque<RankCall> calls;
      for (std::size_t r = 0; r < 2; ++r) {
        calls.emplace_back(spec, r, count, true, count).bind(programs.program(r));
        ranks.progress(r).begin(calls[r].run);
      }
      for (std::size_t r = 0; r < 2; ++r) {
        ASSERT_TRUE(ranks.poll_until_done(r, calls[r].run));
        calls[r].expect_result(spec, r, count, count);
      }
    }
  }
}

/// More connections of a lane than a block keeps the counts of.
TEST(FusedOrder, LanesOfManyConnections) {
  const OnDevice device;
  constexpr std::size_t kRanks = 36;
  const CollectiveSpec spec{Collective::gather, kRanks, 0};
  FusedRanks ranks(kRanks, shape_of_lines());
  FusedPrograms programs(ranks, {schedules_of("linear", Collective::gather, kRanks)}, {1, 2, 256});
  for (std::uint64_t turn = 0; turn < 3; ++turn) {
    std::deque<RankCall> calls;
    for (std::size_t r = 0; r < kRanks; ++r) {
      calls.emplace_back(spec, r, 10 + turn, true, turn).bind(programs.program(r));
      ranks.progress(r).begin(calls[r].run);
    }
    for (std::size_t r = 0; r < kRanks; ++r) {
      ASSERT_TRUE(ranks.poll_until_done(r, calls[r].run));
      calls[r].expect_result(spec, r, 10 + turn, turn);
    }
  }
}

}  // namespace
}  // namespace coll::testing
