// SPDX-License-Identifier: Apache-2.0
// Calls that become part of CUDA's graphs, and what executors of streams refuse.
#include <deque>

#include "stream_calls.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

class TestGraph {
 public:
  TestGraph() = default;
  TestGraph(const TestGraph&) = delete;
  TestGraph& operator=(const TestGraph&) = delete;
  ~TestGraph() {
    EXPECT_CUDA_OK(cuGraphExecDestroy(exec_));
    EXPECT_CUDA_OK(cuGraphDestroy(graph_));
  }
  void end(CUstream stream) {
    EXPECT_CUDA_OK(cuStreamEndCapture(stream, &graph_));
    EXPECT_CUDA_OK(cuGraphInstantiateWithFlags(&exec_, graph_, 0));
  }
  void launch(CUstream stream) const { EXPECT_CUDA_OK(cuGraphLaunch(exec_, stream)); }

 private:
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

void begin_capture(CUstream stream) {
  EXPECT_CUDA_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

constexpr std::size_t kRanks = 3;
constexpr std::uint64_t kCount = 300;
const CollectiveSpec kSum{Collective::all_reduce, kRanks, 0};

/// A graph runs its calls each time: two calls in one graph, the second on what the first made.
TEST(StreamCapture, AGraphRepeatsItsCalls) {
  const OnDevice device;
  // Chains wait for steps of other lanes.
  for (const char* const algorithm : {"ring", "double_binary_tree"}) {
    StreamPrograms programs({schedules_of(algorithm, Collective::all_reduce, kRanks)}, {2, 2, 128});
    const TestStream streams[kRanks];
    std::deque<RankCall> calls, again;
    std::deque<TestGraph> graphs(kRanks);
    for (std::size_t r = 0; r < kRanks; ++r) {
      calls.emplace_back(kSum, r, kCount, true, 1).bind(programs.program(r));
      RankCall& call = calls[r];
      // The same buffer.
      again.emplace_back(kSum, r, kCount, true, 1).run.bind(programs.program(r), call.run.call);
      begin_capture(streams[r]);
      for (auto* const run : {&call.run, &again[r].run}) {
        run->stream = reinterpret_cast<CudaStream>(CUstream{streams[r]});
        run->on_stream = true;
        stream_rank(r).progress.begin(*run);
        EXPECT_TRUE(run->failure.ok()) << run->failure.text();
        EXPECT_TRUE(run->done()) << "for the host it is over";
        stream_rank(r).progress.poll();
      }
      EXPECT_TRUE(stream_rank(r).progress.idle());
      graphs[r].end(streams[r]);
    }
    programs.network().for_each_port([](LoopPort& port) {
      EXPECT_TRUE(port.sent.empty() && port.received.empty()) << "nothing has moved";
    });
    for (std::uint64_t turn = 0; turn < 3; ++turn) {
      for (std::size_t r = 0; r < kRanks; ++r) {
        const Buffers fresh(kSum, r, kCount, true, turn);
        Buffers input = fresh;
        calls[r].arena.write(input.memory().data(), kCount * 8);
      }
      for (std::size_t r = 0; r < kRanks; ++r) graphs[r].launch(streams[r]);
      for (std::size_t r = 0; r < kRanks; ++r) {
        streams[r].synchronize();
        std::vector<std::int64_t> got(kCount);
        calls[r].arena.read(got.data(), kCount * 8);
        for (std::uint64_t i = 0; i < kCount; ++i)
          ASSERT_EQ(got[i], expected_at(kSum, r, kCount, i, turn) * std::int64_t{kRanks})
              << algorithm << ", turn " << turn << ", rank " << r << ", element " << i;
      }
      // An ordinary call in between.
      std::deque<RankCall> ordinary;
      for (std::size_t r = 0; r < kRanks; ++r) {
        ordinary.emplace_back(kSum, r, kCount, true, 9).bind(programs.program(r));
        stream_rank(r).progress.begin(ordinary[r].run);
      }
      for (std::size_t r = 0; r < kRanks; ++r) {
        ASSERT_TRUE(poll_until_done(r, ordinary[r].run));
        ordinary[r].expect_result(kSum, r, kCount, 9);
      }
    }
    programs.network().expect_at_rest();
  }
}

/// While captures are under way, two of them, ordinary calls go on, and fall into none.
TEST(StreamCapture, CapturesAndCallsDoNotMix) {
  const OnDevice device;
  StreamPrograms programs({schedules_of("ring", Collective::all_reduce, kRanks)}, {2, 2, 128});
  const TestStream first_streams[kRanks], second_streams[kRanks];
  std::deque<RankCall> first, second, ordinary;
  std::deque<TestGraph> first_graphs(kRanks), second_graphs(kRanks);
  // Memory first: it cannot be had while streams capture.
  for (std::size_t r = 0; r < kRanks; ++r) {
    first.emplace_back(kSum, r, kCount, true, 1).bind(programs.program(r));
    second.emplace_back(kSum, r, kCount, true, 2).bind(programs.program(r));
    ordinary.emplace_back(kSum, r, kCount, true, 3).bind(programs.program(r));
  }
  for (std::size_t r = 0; r < kRanks; ++r) {
    for (auto [calls, streams] : {std::pair{&first, first_streams}, {&second, second_streams}}) {
      begin_capture(streams[r]);
      (*calls)[r].set_stream(streams[r]);
      stream_rank(r).progress.begin((*calls)[r].run);
      EXPECT_TRUE((*calls)[r].run.failure.ok()) << (*calls)[r].run.failure.text();
    }
    stream_rank(r).progress.begin(ordinary[r].run);
  }
  for (std::size_t r = 0; r < kRanks; ++r) ASSERT_TRUE(poll_until_done(r, ordinary[r].run));
  for (std::size_t r = 0; r < kRanks; ++r) {
    first_graphs[r].end(first_streams[r]);
    second_graphs[r].end(second_streams[r]);
  }
  for (std::size_t r = 0; r < kRanks; ++r) ordinary[r].expect_result(kSum, r, kCount, 3);
  for (std::size_t r = 0; r < kRanks; ++r) second_graphs[r].launch(second_streams[r]);
  for (std::size_t r = 0; r < kRanks; ++r) second_streams[r].synchronize();
  for (std::size_t r = 0; r < kRanks; ++r) first_graphs[r].launch(first_streams[r]);
  for (std::size_t r = 0; r < kRanks; ++r) {
    first_streams[r].synchronize();
    first[r].expect_result(kSum, r, kCount, 1);
    second[r].expect_result(kSum, r, kCount, 2);
  }
}

/// The graphs of a program that has gone still have its scratch.
TEST(StreamCapture, AGraphKeepsTheScratchOfItsProgram) {
  const OnDevice device;
  const CollectiveSpec spec{Collective::all_to_all, kRanks, 0};
  const std::vector<Schedule> schedules = build_all(*find_algorithm("bruck"), spec);
  ASSERT_GT(schedules[0].scratch_chunks, 0U);
  auto programs = std::make_unique<StreamPrograms>(std::vector<std::vector<Schedule>>{schedules},
                                                   StreamPrograms::Settings{1, 2, 128});
  const TestStream streams[kRanks];
  std::deque<RankCall> calls;
  std::deque<TestGraph> graphs(kRanks);
  for (std::size_t r = 0; r < kRanks; ++r)
    calls.emplace_back(spec, r, kCount, false, 1).bind(programs->program(r));
  for (std::size_t r = 0; r < kRanks; ++r) {
    begin_capture(streams[r]);
    calls[r].set_stream(streams[r]);
    stream_rank(r).progress.begin(calls[r].run);
    stream_rank(r).progress.poll();
    graphs[r].end(streams[r]);
  }
  programs->drop();
  const TestMemory<std::byte> others(kArena);  // where the scratch would have been
  for (std::size_t r = 0; r < kRanks; ++r) graphs[r].launch(streams[r]);
  for (std::size_t r = 0; r < kRanks; ++r) streams[r].synchronize();
  for (std::size_t r = 0; r < kRanks; ++r) calls[r].expect_result(spec, r, kCount, 1);
  const std::vector<std::byte> now = others.read();
  EXPECT_TRUE(std::ranges::all_of(now, [](std::byte byte) { return byte == std::byte{}; }));
}

/// A driver that refuses work is the run's failure; what it took has an end.
TEST(StreamFailure, WhatTheDriverRefusesFailsTheRun) {
  const OnDevice device;
  StreamPrograms programs({schedules_of("ring", Collective::all_reduce, kRanks)}, {});
  const TestStream stream;
  RankCall call(kSum, 0, kCount, true, 1);
  call.bind(programs.program(0));
  call.set_stream(stream);
  begin_capture(stream);
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(stream));  // spoils it
  stream_rank(0).progress.begin(call.run);
  EXPECT_FALSE(call.run.done());
  EXPECT_EQ(call.run.failure.code(), Code::system);
  EXPECT_NE(call.run.failure.text().find("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
            std::string::npos)
      << call.run.failure.text();
  stream_rank(0).progress.poll();
  stream_rank(0).progress.abandon(call.run);
  EXPECT_TRUE(stream_rank(0).progress.idle());
  CUgraph graph = nullptr;
  EXPECT_CUDA(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
}

TEST(StreamFailure, AReductionOfTheProgramsOwnIsNoneOfADevice) {
  const OnDevice device;
  StreamPrograms programs({schedules_of("ring", Collective::all_reduce, kRanks)}, {});
  RankCall call(kSum, 0, kCount, true, 1);
  CallBinding own = call.buffers.call(7);
  own.kernels = nullptr;
  own.own.combine = [](void*, const void*, const void*, void*, std::size_t) {};
  call.run.bind(programs.program(0), own);
  stream_rank(0).progress.begin(call.run);
  EXPECT_EQ(call.run.failure.code(), Code::unsupported) << call.run.failure.text();
  stream_rank(0).progress.abandon(call.run);
}

TEST(StreamFailure, WithoutKernelsOnlyWhatReducesIsUnsupported) {
  const OnDevice device;
  StreamExecutor executor(device_of_test(), {});
  LoopNetwork network(256, 2);
  ScratchPool pool;
  const auto connection = [&](Rank peer, std::uint32_t lane) -> Connection* {
    return &network.end(0, peer, lane);
  };
  const auto bind = [&](const char* algorithm, Collective collective) {
    const auto schedule = schedules_of(algorithm, collective, kRanks)[0];
    return executor.bind(schedule, {1, 1, 256, 0, Loans::none}, connection, pool).status();
  };
  const Status refused = bind("ring", Collective::all_reduce);
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(refused.text().find("no kernels for GPUs"), std::string::npos) << refused.text();
  const Status bound = bind("ring", Collective::all_gather);
  EXPECT_TRUE(bound.ok()) << bound.text();
}

TEST(StreamFailure, AConnectionWithoutAPortIsUnsupported) {
  const OnDevice device;
  LoopConnection no_port(2, 256, nullptr);
  ScratchPool pool;
  const auto connection = [&](Rank, std::uint32_t) -> Connection* { return &no_port; };
  const auto schedule = schedules_of("ring", Collective::all_gather, kRanks)[0];
  const auto bound =
      stream_rank(0).executor.bind(schedule, {1, 1, 256, 0, Loans::none}, connection, pool);
  EXPECT_EQ(bound.status().code(), Code::unsupported);
  EXPECT_EQ(bound.status().rank(), 2);
}

/// Ends that disagree on a block's length announce different digests with their first message, so
/// that whoever compares them finds out.
TEST(StreamFailure, LengthsThatDifferAreAnnounced) {
  const OnDevice device;
  const CollectiveSpec spec{Collective::all_to_all, 2, 0, true};
  StreamPrograms programs({build_all(*find_algorithm("linear"), spec)}, {});
  const DeviceArena arenas[] = {DeviceArena(kArena), DeviceArena(kArena)};
  UnequalBlocks blocks[2];
  blocks[0].input = {{0, 0}, {500, 0}};
  blocks[0].output = blocks[1].input = {{0, 0}, {0, 0}};
  coll::Run runs[2];
  for (const std::uint64_t taken : {500U, 200U}) {
    blocks[1].output = {{taken, 0}, {0, 0}};
    for (std::size_t r = 0; r < 2; ++r) {
      CallBinding call;
      call.input = call.output = arenas[r].pointer();
      call.element_bytes = 8;
      call.digest = 42;
      call.blocks = &blocks[r];
      runs[r].bind(programs.program(r), call);
      stream_rank(r).progress.begin(runs[r]);
      // One after the other: what is abandoned writes slots that a peer might read.
      if (taken != 500) stream_rank(r).progress.abandon(runs[r]);
    }
    LoopPort& sender = *programs.network().end(0, 1, 0).port();
    LoopPort& receiver = *programs.network().end(1, 0, 0).port();
    ASSERT_FALSE(sender.sent.empty() || receiver.received.empty());
    const auto digest_of = [](const Announced& message) { return std::get<2>(message); };
    EXPECT_EQ(digest_of(sender.sent[0]) == digest_of(receiver.received[0]), taken == 500);
    sender.sent.clear();
    receiver.received.clear();
    for (std::size_t r = 0; r < 2 && taken == 500; ++r) EXPECT_TRUE(poll_until_done(r, runs[r]));
  }
}

}  // namespace
}  // namespace coll::testing
