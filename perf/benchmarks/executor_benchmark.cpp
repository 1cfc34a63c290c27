// SPDX-License-Identifier: Apache-2.0
// The executor and what comes before it: calls of a bound program, cutting, binding, planning.
//
// What an executor costs on top of a connection is `two_ranks/ping_pong` here less
// `process_ping_pong` of connection-benchmark in the same form and size.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "benchmarks/shared_link_benchmark.hpp"
#include "benchmarks/sides_benchmark.hpp"
#include "executor/cpu_executor.hpp"
#include "executor/progress.hpp"
#include "executor/wait_policy.hpp"
#include "planner/planner.hpp"

namespace {

using coll::CallBinding;
using coll::Collective;
using coll::Connection;
using coll::CpuExecutor;
using coll::Rank;
using perf::batches;
using perf::kWarmUp;
using perf::SharedLink;
using perf::TwoProcesses;

coll::World world_of(Rank ranks) {
  coll::World world;
  world.layout = coll::Layout::flat(ranks);
  return world;
}

coll::Plan plan_of(const coll::World& world, Collective collective, Rank root, std::size_t bytes) {
  const coll::CollectiveSpec spec{collective, world.layout.ranks(), root};
  return *coll::make_plan(world, {spec, coll::size_class(bytes)});
}

/// What moves one rank's calls.
struct Runner {
  explicit Runner(const std::atomic<bool>& stop) : stop_flag(&stop) {}
  coll::Progress progress;
  const std::atomic<bool>* stop_flag;
};

/// A plan that one rank has bound, and a call of it on `bytes` of buffers of its own.
class Bound {
 public:
  Bound(Collective collective, Rank root, std::size_t bytes, Rank rank, const SharedLink* link)
      : input_(bytes, std::byte{1}), output_(bytes, std::byte{2}) {
    const coll::World world = world_of(link == nullptr ? 1 : 2);
    const coll::Plan plan = plan_of(world, collective, root, bytes);
    const coll::Schedule schedule = plan.algorithm->build(plan.spec, world.layout, rank);
    program_ = *executor_.bind(
        schedule, {plan.lanes, plan.message_chunks, plan.slice_bytes, plan.digest(), plan.loans},
        [&](Rank, std::uint32_t lane) { return &link->end(lane); }, scratch_);
    CallBinding call;
    call.input = input_.data();
    call.output = output_.data();
    call.element_bytes = sizeof(float);
    call.count = bytes / call.element_bytes;
    call.kernels = &coll::reduce::kernels(coll::ReduceOp::sum, coll::DataType::float32);
    call.digest = plan.digest();
    call.apart = true;
    run_.bind(*program_, call);
  }

  /// Until the run or the benchmark ends.
  void run(Runner& runner) {
    runner.progress.begin(run_);
    for (coll::Waiter waiter({}); !run_.done();) {
      if (runner.progress.poll()) {
        waiter.reset();
      } else if (waiter.turn() && runner.stop_flag->load(std::memory_order_relaxed)) {
        return;
      }
    }
  }

 private:
  std::vector<std::byte> input_, output_;
  CpuExecutor executor_;
  coll::ScratchPool scratch_;
  std::unique_ptr<coll::Program> program_;
  coll::Run run_;
};

/// One rank alone, which copies: the least a call costs between `start` and its end.
void one_rank(benchmark::State& state) {
  const std::atomic<bool> never{false};
  Runner runner(never);
  Bound call(Collective::all_reduce, 0, static_cast<std::size_t>(state.range(0)), 0, nullptr);
  for (auto _ : state) call.run(runner);
}

/// Two ranks: rank 0 calls `collectives` one after the other, rank 1 in the opposite order.
void two_ranks(benchmark::State& state, std::vector<Collective> collectives) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const coll::World world = world_of(2);
  const TwoProcesses ranks;
  const SharedLink link(ranks, world.max_lanes, world.slot_bytes);
  if (!link.ready()) return state.SkipWithError("no connection");
  if (ranks.rank() == 1) std::ranges::reverse(collectives);
  Runner runner(ranks.stop());
  std::vector<std::unique_ptr<Bound>> calls;
  for (const Collective collective : collectives) {
    const bool pair = collective == Collective::send || collective == Collective::recv;
    calls.push_back(std::make_unique<Bound>(collective, pair ? 1 - ranks.rank() : 0, bytes,
                                            ranks.rank(), &link));
  }
  const auto round = [&] {
    for (const auto& call : calls) call->run(runner);
  };
  ranks.partner([&] {
    while (!ranks.stop()) round();
  });
  for (int i = 0; i < kWarmUp; ++i) round();
  for (auto _ : state) round();
}

/// A connection that nothing is sent over.
class Nowhere final : public Connection {
 public:
  Nowhere() : Connection(1, 64) {}
  std::byte* acquire(std::size_t) override { return nullptr; }
  void commit(std::size_t, std::uint64_t) override {}
  bool send(const std::byte*, std::size_t, std::uint64_t) override { return false; }
  [[nodiscard]] coll::Mark mark() const override { return 0; }
  bool flushed(coll::Mark) override { return true; }
  const std::byte* peek(std::size_t, std::uint64_t) override { return nullptr; }
  void release() override {}
  bool receive(std::byte*, std::size_t, std::uint64_t) override { return false; }
  [[nodiscard]] bool ready() const override { return true; }
};

/// Rank 0's part in a ring all_reduce of state.range(0) ranks: 2 (n - 1) steps.
coll::Schedule ring(const benchmark::State& state) {
  const auto ranks = static_cast<Rank>(state.range(0));
  return coll::find_algorithm("ring")->build({Collective::all_reduce, ranks, 0},
                                             coll::Layout::flat(ranks), 0);
}
std::unique_ptr<coll::Program> bind_nowhere(const coll::Schedule& schedule, Connection& nowhere,
                                            coll::ScratchPool& scratch) {
  return *coll::bind(
      schedule, {.slice_bytes = 64 << 10}, [&](Rank, std::uint32_t) { return &nowhere; }, scratch);
}

/// The extents of a call whose count differs from the last call's.
void cut(benchmark::State& state) {
  Nowhere nowhere;
  coll::ScratchPool scratch;
  const auto program = bind_nowhere(ring(state), nowhere, scratch);
  std::uint64_t count = 1 << 20;
  coll::Extents extents;
  for (auto _ : state) extents.make(*program, count ^= 1, sizeof(float));
  state.counters["steps"] = static_cast<double>(program->steps.size());
}

void bind(benchmark::State& state) {
  Nowhere nowhere;
  const coll::Schedule schedule = ring(state);
  coll::ScratchPool scratch;
  for (auto _ : state) benchmark::DoNotOptimize(bind_nowhere(schedule, nowhere, scratch));
}

/// One rank's schedule.
void build(benchmark::State& state, std::string_view algorithm, Collective collective) {
  const auto ranks = static_cast<Rank>(state.range(0));
  const coll::Layout layout = coll::Layout::flat(ranks);
  coll::Schedule built;
  for (auto _ : state) {
    built = coll::find_algorithm(algorithm)->build({collective, ranks, 0}, layout, ranks / 4);
  }
  double steps = 0;
  double stored = 0;
  for (const coll::Lane& lane : built.lanes) {
    steps += static_cast<double>(lane.size());
    stored += static_cast<double>(lane.stored());
  }
  state.counters["steps"] = steps;
  state.counters["stored"] = stored;
}

/// The choice among all algorithms. Arguments: how many ranks, how many of them share a core,
/// bytes.
void plan(benchmark::State& state) {
  coll::World world = world_of(static_cast<Rank>(state.range(0)));
  world.view.ranks_per_core = static_cast<double>(state.range(1));
  const coll::CollectiveSpec spec{Collective::all_reduce, world.layout.ranks(), 0};
  const std::uint32_t size = coll::size_class(static_cast<std::uint64_t>(state.range(2)));
  for (auto _ : state) benchmark::DoNotOptimize(coll::plan_afresh(world, {spec, size}));
}

void short_calls(benchmark::internal::Benchmark* benchmark) {
  batches(benchmark, 5000, 30);
  benchmark->Arg(8)->Arg(4 << 10);
}
void long_calls(benchmark::internal::Benchmark* benchmark) {
  batches(benchmark, 200, 30);
  benchmark->Arg(64 << 10)->Arg(1 << 20);
}
void ranks(benchmark::internal::Benchmark* benchmark) {
  batches(benchmark, 200, 30);
  for (const std::int64_t ranks : {2, 16, 128}) benchmark->Arg(ranks);
}
void ranks_on_cores(benchmark::internal::Benchmark* benchmark) {
  batches(benchmark, 20, 5);
  for (const std::int64_t bytes : {8, 64 << 10, 1 << 20}) {
    for (const std::int64_t ranks : {2, 16, 128}) benchmark->Args({ranks, 1, bytes});
    for (const std::int64_t ranks : {4, 8, 32}) benchmark->Args({ranks, ranks / 2, bytes});
  }
}
void many_ranks(benchmark::internal::Benchmark* benchmark) {
  batches(benchmark, 10, 5);
  benchmark->RangeMultiplier(8)->Range(8, 65536);
}

BENCHMARK(one_rank)->Apply(short_calls);
BENCHMARK(one_rank)->Apply(long_calls);
BENCHMARK_CAPTURE(two_ranks, ping_pong, {Collective::send, Collective::recv})->Apply(short_calls);
BENCHMARK_CAPTURE(two_ranks, ping_pong, {Collective::send, Collective::recv})->Apply(long_calls);
BENCHMARK_CAPTURE(two_ranks, all_reduce, {Collective::all_reduce})->Apply(short_calls);
BENCHMARK_CAPTURE(two_ranks, all_reduce, {Collective::all_reduce})->Apply(long_calls);
BENCHMARK(cut)->Apply(ranks);
BENCHMARK(plan)->Apply(ranks_on_cores);
BENCHMARK_CAPTURE(build, ring, "ring", Collective::all_reduce)->Apply(many_ranks);
BENCHMARK_CAPTURE(build, two_shot, "two_shot", Collective::all_reduce)->Apply(many_ranks);
BENCHMARK_CAPTURE(build, binomial, "binomial", Collective::all_reduce)->Apply(many_ranks);
BENCHMARK_CAPTURE(build, pairwise, "pairwise", Collective::all_to_all)->Apply(many_ranks);
BENCHMARK_CAPTURE(build, bruck, "bruck", Collective::all_to_all)->Apply(many_ranks);
BENCHMARK(bind)->Apply(ranks);

}  // namespace

BENCHMARK_MAIN();
