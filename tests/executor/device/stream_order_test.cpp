// SPDX-License-Identifier: Apache-2.0
// What streams order: calls in flight, the user's streams, runs that are held, and what is
// abandoned.
#include <deque>

#include "stream_calls.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

/// Calls of two programs on the same connections, one behind the other, that nobody waits for, on
/// several streams of the user or on none.
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
    const TestStream user_streams[kRanks][2];
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
        if (const std::size_t stream = random() % 3; stream < 2)
          call.set_stream(user_streams[r][stream]);
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

/// What the user's stream does before the call makes its input; what it does behind it finds its
/// output.
TEST(StreamOrder, ACallKeepsItsPlaceOnTheUsersStream) {
  const OnDevice device;
  constexpr std::size_t kRanks = 3;
  constexpr std::uint64_t kCount = 500;
  const CollectiveSpec spec{Collective::all_reduce, kRanks, 0};
  StreamPrograms programs({schedules_of("ring", Collective::all_reduce, kRanks)}, {2, 2, 1024});
  std::deque<RankCall> calls;
  std::deque<TestMemory<std::int64_t>> sources, results;
  const TestMemory<std::uint32_t> gates(kRanks);
  const TestStream streams[kRanks], opener;
  for (std::size_t r = 0; r < kRanks; ++r) {
    RankCall& call = calls.emplace_back(spec, r, kCount, true, 5);
    const auto memory = call.buffers.memory();
    sources.emplace_back(std::vector<std::int64_t>(memory.begin(), memory.end()));
    results.emplace_back(kCount);
    const std::vector<std::int64_t> nothing(kCount, -7);
    call.arena.write(nothing.data(), kCount * 8);
    call.bind(programs.program(r));
    call.set_stream(streams[r]);
    EXPECT_CUDA_OK(cuStreamWaitValue32_v2(streams[r], gates.at(r), 1, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(call.arena.at(), sources[r].at(), kCount * 8, streams[r]));
    stream_rank(r).progress.begin(call.run);
    EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(results[r].at(), call.arena.at(), kCount * 8, streams[r]));
    EXPECT_CUDA_OK(cuMemsetD8Async(call.arena.at(), 0xee, kCount * 8, streams[r]));
  }
  for (std::size_t r = 0; r < kRanks; ++r) {
    for (int i = 0; i < 100; ++i) stream_rank(r).progress.poll();
    EXPECT_FALSE(calls[r].run.done()) << "its input is not there yet";
  }
  for (std::size_t r = 0; r < kRanks; ++r)
    EXPECT_CUDA_OK(cuStreamWriteValue32_v2(opener, gates.at(r), 1, 0));
  for (std::size_t r = 0; r < kRanks; ++r) ASSERT_TRUE(poll_until_done(r, calls[r].run));
  for (std::size_t r = 0; r < kRanks; ++r) {
    streams[r].synchronize();
    compare(results[r].read(), spec, r, kCount, 5);
  }
}

/// A null stream is a stream.
TEST(StreamOrder, ACallOnTheDefaultStream) {
  const OnDevice device;
  constexpr std::uint64_t kCount = 300;
  const CollectiveSpec spec{Collective::all_gather, 1, 0};
  StreamPrograms programs({schedules_of("local", Collective::all_gather, 1)}, {});
  RankCall call(spec, 0, kCount, false, 3);
  const TestMemory<std::uint32_t> gate(1);
  const TestMemory<std::int64_t> source(
      {call.buffers.memory().begin(), call.buffers.memory().end()});
  const TestStream opener;
  const std::vector<std::int64_t> nothing(2 * kCount, -7);
  call.arena.write(nothing.data(), nothing.size() * 8);
  call.bind(programs.program(0));
  call.set_stream(nullptr);
  EXPECT_CUDA_OK(cuStreamWaitValue32_v2(nullptr, gate.at(), 1, CU_STREAM_WAIT_VALUE_EQ));
  EXPECT_CUDA_OK(cuMemcpyDtoDAsync_v2(call.arena.at(), source.at(), kCount * 8, nullptr));
  stream_rank(0).progress.begin(call.run);
  EXPECT_CUDA_OK(cuStreamWriteValue32_v2(opener, gate.at(), 1, 0));
  EXPECT_CUDA_OK(cuStreamSynchronize(nullptr));
  call.expect_result(spec, 0, kCount, 3);
  EXPECT_TRUE(poll_until_done(0, call.run));
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
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_TRUE(poll_until_done(r, calls[r].run));
    calls[r].expect_result(spec, r, kCount, 1);
  }
}

/// A run that is held keeps all ranks waiting, and what began behind it; then both go.
TEST(StreamOrder, AHeldRunWaitsForItsRelease) {
  const OnDevice device;
  constexpr std::size_t kRanks = 3;
  constexpr std::uint64_t kCount = 200;
  const CollectiveSpec spec{Collective::all_reduce, kRanks, 0};
  StreamPrograms programs({schedules_of("ring", Collective::all_reduce, kRanks)}, {});
  for (int round = 0; round < 3; ++round) {  // flights are used again
    std::deque<RankCall> held, behind;
    for (std::size_t r = 0; r < kRanks; ++r) {
      held.emplace_back(spec, r, kCount, true, 1).bind(programs.program(r));
      behind.emplace_back(spec, r, kCount, false, 2).bind(programs.program(r));
      if (r == 0) {
        stream_rank(r).progress.hold(held[r].run);
      } else {
        stream_rank(r).progress.begin(held[r].run);
      }
      stream_rank(r).progress.begin(behind[r].run);
    }
    for (int i = 0; i < 300; ++i) {
      for (std::size_t r = 0; r < kRanks; ++r) stream_rank(r).progress.poll();
    }
    std::vector<std::int64_t> before(kCount);
    held[0].arena.read(before.data(), kCount * 8);
    EXPECT_TRUE(std::ranges::equal(before, held[0].buffers.memory())) << "it moved";
    for (std::size_t r = 0; r < kRanks; ++r) {
      EXPECT_FALSE(held[r].run.done());
      EXPECT_FALSE(behind[r].run.done());
    }
    stream_rank(0).progress.release(held[0].run);
    for (std::size_t r = 0; r < kRanks; ++r) {
      ASSERT_TRUE(poll_until_done(r, held[r].run));
      ASSERT_TRUE(poll_until_done(r, behind[r].run));
      held[r].expect_result(spec, r, kCount, 1);
      behind[r].expect_result(spec, r, kCount, 2);
    }
    if (HasFailure()) return;
  }
}

/// Peers that never come: the device ends what waits for them, at once, in whatever order runs are
/// abandoned, and then touches the buffers no more.
TEST(StreamOrder, AbandonedRunsEnd) {
  const OnDevice device;
  constexpr std::uint64_t kCount = 4000;
  const CollectiveSpec spec{Collective::all_reduce, 3, 0};
  for (const bool in_order : {true, false}) {
    for (const bool on_stream : {true, false}) {
      StreamPrograms programs({schedules_of("ring", Collective::all_reduce, 3),
                               schedules_of("recursive_doubling", Collective::all_reduce, 3)},
                              {2, 2, 128});
      const TestStream stream;
      std::deque<RankCall> calls;
      for (std::size_t i = 0; i < 4; ++i) {
        RankCall& call = calls.emplace_back(spec, 0, kCount, true, i);
        call.bind(programs.program(0, i % 2));
        if (on_stream) call.set_stream(stream);
        i == 1 ? stream_rank(0).progress.hold(call.run) : stream_rank(0).progress.begin(call.run);
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
      if (on_stream) stream.synchronize();
      EXPECT_TRUE(stream_rank(0).progress.idle());
      for (RankCall& call : calls) {
        std::vector<std::int64_t> now(kCount);
        call.arena.read(now.data(), kCount * 8);
        EXPECT_TRUE(std::ranges::all_of(now, [](std::int64_t x) { return x == 99; }));
      }
    }
  }
}

/// The end of an abandoned run on the user's stream is not the end of the next run.
TEST(StreamOrder, AnAbandonedRunEndsNoOther) {
  const OnDevice device;
  const CollectiveSpec spec{Collective::all_reduce, 2, 0};
  for (int turn = 0; turn < 100; ++turn) {
    StreamPrograms programs({schedules_of("recursive_doubling", Collective::all_reduce, 2)}, {});
    const TestStream stream;
    RankCall first(spec, 0, 100, true, 1), second(spec, 0, 100, true, 1);
    first.bind(programs.program(0));
    first.set_stream(stream);
    second.bind(programs.program(0));
    stream_rank(0).progress.begin(first.run);
    stream_rank(0).progress.abandon(first.run);
    stream_rank(0).progress.hold(second.run);
    stream.synchronize();
    for (int i = 0; i < 20; ++i) stream_rank(0).executor.advance(second.run);
    ASSERT_FALSE(second.run.done()) << "turn " << turn;
    stream_rank(0).progress.abandon(second.run);
  }
}

/// What was abandoned on a stream that is stuck has its words and its scratch later too. Nobody
/// waits for the stream: it may be stuck for good.
TEST(StreamOrder, WhatWasAbandonedMayRunAfterItsExecutor) {
  const OnDevice device;
  const CollectiveSpec spec{Collective::all_to_all, 3, 0};
  const Schedule schedule = build_all(*find_algorithm("bruck"), spec)[0];
  ASSERT_GT(schedule.scratch_chunks, 0U);
  const TestStream stream;
  PinnedWords words(device_of_test().driver(), device_of_test().context());
  const auto stuck = words.next();
  ASSERT_TRUE(stuck.ok());
  EXPECT_CUDA_OK(cuStreamWaitValue32_v2(stream, stuck->there, 1, CU_STREAM_WAIT_VALUE_EQ));
  RankCall call(spec, 0, 10, false, 1);
  LoopNetwork network(256, 2);
  {
    StreamExecutor executor(device_of_test(), any_image());
    ScratchPool pool;
    const auto connection = [&](Rank peer, std::uint32_t lane) -> Connection* {
      return &network.end(0, peer, lane);
    };
    const auto program = executor.bind(schedule, {1, 1, 256, 0, Loans::none}, connection, pool);
    ASSERT_TRUE(program.ok()) << program.status().text();
    call.bind(**program);
    call.set_stream(stream);
    executor.begin(call.run);
    EXPECT_TRUE(call.run.failure.ok()) << call.run.failure.text();
    executor.abandon(call.run);
    EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  }
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  stuck->set(1);
  stream.synchronize();
}

/// The device has ended, the processor not: the run goes on until its ports are settled, or until a
/// later run on the same connections sees to them.
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
  const auto settle = [&](bool settled) {
    programs.network().for_each_port([&](LoopPort& port) { port.is_settled = settled; });
  };
  settle(false);
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
  programs.network().for_each_port([](LoopPort& port) { EXPECT_GT(port.looks, 10U); });
  begin(second);
  for (std::size_t r = 0; r < 2; ++r) EXPECT_TRUE(poll_until_done(r, first[r].run));
  until_moved(second);
  for (std::size_t r = 0; r < 2; ++r) EXPECT_FALSE(second[r].run.done());
  settle(true);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_TRUE(poll_until_done(r, second[r].run));
    second[r].expect_result(spec, r, kCount, 1);
  }
}

}  // namespace
}  // namespace coll::testing
