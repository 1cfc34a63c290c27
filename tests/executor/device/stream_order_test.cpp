// SPDX-License-Identifier: Apache-2.0
// What streams order: calls in flight, and what is abandoned.
#include <deque>

#include "stream_calls.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

/// Calls of several programs on the same connections, one behind the other, that nobody waits for.
TEST(StreamOrder, ManyCallsInFlight) {
  const OnDevice device;
  std::mt19937_64 random(test::test_seed());
  constexpr std::size_t kRanks = 4, kCalls = 12;
  const CollectiveSpec specs[] = {{Collective::all_reduce, kRanks, 0},
                                  {Collective::all_to_all, kRanks, 0},
                                  {Collective::all_reduce, kRanks, 0}};
  const char* const names[] = {"ring", "linear", "double_binary_tree"};
  std::vector<std::vector<Schedule>> lists;
  for (std::size_t i = 0; i < 3; ++i)
    lists.push_back(build_all(*find_algorithm(names[i]), specs[i]));
  for (int round = 0; round < 6; ++round) {
    StreamPrograms::Settings settings;
    settings.copies = 1 + static_cast<std::uint32_t>(random() % 2);
    StreamPrograms programs(lists, settings);
    std::deque<RankCall> calls;
    struct Part {
      std::size_t rank, which;
      std::uint64_t count;
    };
    std::vector<Part> parts;
    for (std::size_t number = 0; number < kCalls; ++number) {
      const std::size_t which = random() % 3;
      const std::uint64_t count = random() % 200;
      const bool in_place = random() % 2 == 0;
      for (std::size_t r = 0; r < kRanks; ++r) {
        RankCall& call = calls.emplace_back(specs[which], r, count, in_place, number);
        parts.push_back({r, which, count});
        call.bind(programs.program(r, which));
      }
    }
    const auto begin_and_poll = [&](std::size_t r) {
      for (std::size_t i = 0; i < calls.size(); ++i)
        if (parts[i].rank == r) stream_rank(r).progress.begin(calls[i].run);
      for (std::size_t i = 0; i < calls.size(); ++i)
        if (parts[i].rank == r && !poll_until_done(r, calls[i].run)) return;
    };
    as_threads(kRanks, begin_and_poll);
    if (HasFailure()) return;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto& [rank, which, count] = parts[i];
      calls[i].expect_result(specs[which], rank, count, i / kRanks);
    }
    programs.network().expect_at_rest();
    if (HasFailure()) return;
  }
}

/// Lanes do not wait for one another: what one moves arrives while another one stands.
TEST(StreamOrder, LanesRunSideBySide) {
#if defined(SANITIZED)
  GTEST_SKIP() << "it looks at memory that the device is writing";
#endif
  const OnDevice device;
  constexpr std::uint64_t kCount = 64;  // of two passes, one on each copy
  const CollectiveSpec spec{Collective::broadcast, 2, 0};
  StreamPrograms programs({schedules_of("linear", Collective::broadcast, 2)}, {2, 2, 256});
  programs.network().block(0, 1, 0, true);
  std::deque<RankCall> calls;
  for (std::size_t r = 0; r < 2; ++r) {
    calls.emplace_back(spec, r, kCount, true, 1).bind(programs.program(r));
    stream_rank(r).progress.begin(calls[r].run);
  }
  ASSERT_EQ(calls[0].run.extents.windows.passes, 2U);
  const auto arrived = [&](std::uint64_t element) {
    std::vector<std::int64_t> now(kCount);
    calls[1].arena.read(now.data(), kCount * 8);
    return now[element] == expected_at(spec, 1, kCount, element, 1);
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!arrived(kCount - 1) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_TRUE(arrived(kCount - 1));
  EXPECT_FALSE(arrived(0));
  EXPECT_FALSE(calls[1].run.done());
  programs.network().block(0, 1, 0, false);
  EXPECT_TRUE(poll_until_all_done(2, [&](std::size_t r) -> coll::Run& { return calls[r].run; }));
  for (std::size_t r = 0; r < 2; ++r) calls[r].expect_result(spec, r, kCount, 1);
}

/// Peers that never come: the device ends what waits for them, at once, in whatever order runs are
/// abandoned, and then touches the buffers no more.
TEST(StreamOrder, AbandonedRunsEnd) {
  const OnDevice device;
  constexpr std::uint64_t kCount = 4000;
  const CollectiveSpec spec{Collective::all_reduce, 3, 0};
  for (const bool in_order : {true, false}) {
    StreamPrograms programs({schedules_of("ring", Collective::all_reduce, 3),
                             schedules_of("recursive_doubling", Collective::all_reduce, 3)},
                            {2, 2, 128});
    std::deque<RankCall> calls;
    for (std::size_t i = 0; i < 4; ++i) {
      RankCall& call = calls.emplace_back(spec, 0, kCount, true, i);
      call.bind(programs.program(0, i % 2));
      stream_rank(0).progress.begin(call.run);
    }
    for (int i = 0; i < 100; ++i) stream_rank(0).progress.poll();
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < calls.size(); ++i) {
      RankCall& call = calls[in_order ? i : calls.size() - 1 - i];
      EXPECT_FALSE(call.run.done());
      stream_rank(0).progress.abandon(call.run);
      const std::vector<std::int64_t> mine(kCount, 99);
      call.arena.write(mine.data(), kCount * 8);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2)) << "it gave up";
    EXPECT_TRUE(stream_rank(0).progress.idle());
    for (RankCall& call : calls) {
      std::vector<std::int64_t> now(kCount);
      call.arena.read(now.data(), kCount * 8);
      EXPECT_TRUE(std::ranges::all_of(now, [](std::int64_t x) { return x == 99; }));
    }
  }
}

/// The middle of a chain is abandoned before its message has come. It is let through, and passes on
/// what is none: the rank behind it is not told that a message is there.
TEST(StreamOrder, AbandonedRunsTellNobodyThatTheySent) {
  const OnDevice device;
  constexpr std::uint64_t kCount = 4000;
  const CollectiveSpec spec{Collective::broadcast, 3, 0};
  StreamPrograms programs({schedules_of("chain", Collective::broadcast, 3)}, {1, 2, 128});
  RankCall call(spec, 1, kCount, false, 1);
  call.bind(programs.program(1));
  stream_rank(1).progress.begin(call.run);
  for (int i = 0; i < 100; ++i) stream_rank(1).progress.poll();
  stream_rank(1).progress.abandon(call.run);
  EXPECT_FALSE(call.run.lost);
  for (const std::uint32_t slot : {0U, 1U})
    EXPECT_EQ(programs.network().sent(1, 2, 0, slot), 2U) << "slot " << slot;
}

/// A run that cannot be ended is given up after some seconds. It has its words and its scratch
/// later too: nobody waits for its streams, which may be stuck for good.
TEST(StreamOrder, WhatWasGivenUpMayRunAfterItsExecutor) {
  const OnDevice device;
  const CollectiveSpec spec{Collective::all_to_all, 3, 0};
  const Schedule schedule = build_all(*find_algorithm("bruck"), spec)[0];
  ASSERT_GT(schedule.scratch_chunks, 0U);
  RankCall call(spec, 0, 10, false, 1);
  LoopNetwork network(256, 2);
  {
    StreamExecutor executor(device_of_test(), stream_image());
    ScratchPool pool;
    const auto connection = [&](Rank peer, std::uint32_t lane) -> Connection* {
      return &network.end(0, peer, lane);
    };
    const auto program = executor.bind(schedule, {1, 1, 256, 0, Loans::none}, connection, pool);
    ASSERT_TRUE(program.ok()) << program.status().text();
    call.bind(**program);
    executor.begin(call.run);
    EXPECT_TRUE(call.run.failure.ok()) << call.run.failure.text();
    network.for_each_port([](LoopPort& port) { port.releases = false; });
    executor.abandon(call.run);
    EXPECT_TRUE(call.run.lost) << "its buffers are the device's";
    for (Connection* const each : (*program)->connections)
      EXPECT_TRUE(static_cast<LoopConnection*>(each)->port()->kept);
  }
  network.for_each_port([](LoopPort& port) { port.releases = true; });
  std::atomic<bool> over = false;
  std::thread releasing([&] {
    while (!over) {
      network.for_each_port([](LoopPort& port) { port.release_all(); });
      std::this_thread::yield();
    }
  });
  EXPECT_CUDA_OK(cuCtxSynchronize());
  over = true;
  releasing.join();
}

/// Streams get no more passes of a long call than they can hold while its peer is away; whoever
/// polls gives them the rest.
TEST(StreamOrder, ALongCallIsGivenInPieces) {
  const OnDevice device;
  constexpr std::uint64_t kCount = 8000;
  const CollectiveSpec spec{Collective::broadcast, 2, 0};
  StreamPrograms programs({schedules_of("linear", Collective::broadcast, 2)}, {2, 2, 128});
  std::deque<RankCall> calls;
  for (std::size_t r = 0; r < 2; ++r)
    calls.emplace_back(spec, r, kCount, true, 1).bind(programs.program(r));
  ASSERT_EQ(calls[0].run.extents.windows.passes, 500U);
  stream_rank(0).progress.begin(calls[0].run);
  for (int i = 0; i < 100; ++i) stream_rank(0).progress.poll();
  std::size_t announced = 0;
  programs.network().for_each_port([&](LoopPort& port) { announced += port.sent.size(); });
  EXPECT_GE(announced, 4U);
  EXPECT_LE(announced, 40U);
  stream_rank(1).progress.begin(calls[1].run);
  ASSERT_TRUE(poll_until_all_done(2, [&](std::size_t r) -> coll::Run& { return calls[r].run; }));
  for (std::size_t r = 0; r < 2; ++r) calls[r].expect_result(spec, r, kCount, 1);
  programs.network().expect_at_rest();
}

/// The device has ended, the processor not: the run goes on until its own messages are settled.
TEST(StreamOrder, ARunEndsWhenItsPortsAreSettled) {
  const OnDevice device;
  constexpr std::uint64_t kCount = 50;
  const CollectiveSpec spec{Collective::all_reduce, 2, 0};
  StreamPrograms programs({schedules_of("recursive_doubling", Collective::all_reduce, 2)}, {});
  std::deque<RankCall> first, second;
  const auto begin = [&](std::deque<RankCall>& calls) {
    for (std::size_t r = 0; r < 2; ++r) {
      calls.emplace_back(spec, r, kCount, true, 1).bind(programs.program(r));
      stream_rank(r).progress.begin(calls[r].run);
    }
  };
  programs.network().for_each_port([](LoopPort& port) { port.settled_up_to = port.messages; });
  begin(first);
  const auto until_moved = [&](std::deque<RankCall>& calls) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (std::size_t r = 0; r < 2; ++r) {
      while (calls[r].run.left != 0 && std::chrono::steady_clock::now() < deadline)
        stream_rank(r).progress.poll();
      EXPECT_EQ(calls[r].run.left, 0U);
    }
  };
  until_moved(first);
  for (std::size_t r = 0; r < 2; ++r) {
    for (int i = 0; i < 10; ++i) stream_rank(r).progress.poll();
    EXPECT_FALSE(first[r].run.done());
  }
  std::map<LoopPort*, Mark> behind_first;
  programs.network().for_each_port([&](LoopPort& port) {
    EXPECT_GT(port.looks, 10U);
    behind_first[&port] = port.messages;
  });
  begin(second);
  for (std::size_t r = 0; r < 2; ++r) {
    for (int i = 0; i < 10; ++i) stream_rank(r).progress.poll();
    EXPECT_FALSE(first[r].run.done()) << "a later run says nothing of it";
  }
  for (auto& [port, mark] : behind_first) port->settled_up_to = mark;
  for (std::size_t r = 0; r < 2; ++r) EXPECT_TRUE(poll_until_done(r, first[r].run));
  until_moved(second);
  for (std::size_t r = 0; r < 2; ++r) EXPECT_FALSE(second[r].run.done());
  programs.network().for_each_port([](LoopPort& port) { port.settled_up_to = port.messages; });
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_TRUE(poll_until_done(r, second[r].run));
    second[r].expect_result(spec, r, kCount, 1);
  }
}

}  // namespace
}  // namespace coll::testing
