// SPDX-License-Identifier: Apache-2.0
// Steps of AdamW whose states lie elsewhere, beside the parts that they overlap: a pipeline takes
// about the time of its slowest part.
//
//   memory       the states are in memory: arithmetic alone
//   file/MEANS   a step from the file; file-io/MEANS: the same transfers, with all parameters
//   skipped host/SPEED   a step over a link of that many bytes/s; host-copies/SPEED: its copies
//   alone fetch/…      4 ranks get a unit of 4 MiB over links of 100 MB/s each
//
// A first argument names the folder of the file: the current one by default.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <thread>

#include "offload/file_optimizer.hpp"
#include "offload/host_optimizer.hpp"
#include "offload/unit_fetch.hpp"
#include "optimizer/memory_optimizer.hpp"

namespace {

using namespace training;

constexpr std::size_t kCount = std::size_t{1} << 24U;

/// One bucket of one parameter.
struct Problem {
  FlatLayout layout = FlatLayout::by_unit({{kCount}}, 16);
  Owned owned{&layout, {}, Format::f32, Format::f32, {{true}}};
  std::vector<float> gradients = std::vector<float>(kCount, 0.5F);
  std::vector<float> weights = std::vector<float>(kCount, 0.5F);
  Update update{{.rate = 1e-3F, .decay = 0.1F, .step_size = 1e-3F, .root_of_correction = 0.9F}};

  void run(benchmark::State& state, Optimizer& optimizer) {
    const auto step = [&] {
      optimizer.update(0, update, gradients.data(), weights.data());
      optimizer.finish(0);
    };
    optimizer.begin(0, weights);
    step();  // makes the pages of the states
    for (auto _ : state) step();
    state.counters["params"] = benchmark::Counter(static_cast<double>(kCount),
                                                  benchmark::Counter::kIsIterationInvariantRate);
  }
};

void in_memory(benchmark::State& state) {
  Problem problem;
  Arena arena;
  MemoryOptimizer optimizer(problem.owned, arena);
  problem.run(state, optimizer);
}

void from_file(benchmark::State& state, const std::string& folder, const std::string& means,
               bool skip) {
  Problem problem;
  if (skip) problem.update.skipped = {{true}};
  Arena arena;
  DeviceLink link;
  try {
    FileOptimizer optimizer(problem.owned, arena, link, {.folder = folder, .means = means});
    problem.run(state, optimizer);
    state.SetLabel(optimizer.means());
  } catch (const Failure& failure) {
    state.SkipWithError(failure.what());
  }
}

void over_link(benchmark::State& state, double speed, bool skip) {
  Problem problem;
  if (skip) problem.update.skipped = {{true}};
  Arena arena;
  DeviceLink link(speed);
  HostOptimizer optimizer(problem.owned, arena, link);
  problem.run(state, optimizer);
}

void fetch(benchmark::State& state, bool gather) {
  constexpr int kRanks = 4;
  constexpr std::size_t kUnit = std::size_t{1} << 20U, kPart = kUnit / kRanks;
  coll_unique_id_t id{};
  value_of(collectives::detail::result(coll_get_unique_id(&id)));
  const auto rank_does = [&](int rank, const auto& times) {
    auto joined = value_of(collectives::Communicator::join(id, kRanks, rank));
    const std::vector<float> stored(kUnit, 1);
    std::vector<float> device(kUnit);
    DeviceLink link(1e8);
    const std::span<const float> whole = stored;
    times([&] {
      if (gather) {
        fetch_by_all_gather(joined, link, whole.first(kPart), device);
      } else {
        fetch_by_broadcast(joined, link, 0, whole, device);
      }
    });
  };
  // As many times on each rank: the iterations are given.
  const auto times = static_cast<int>(state.max_iterations);
  std::vector<std::thread> others;
  for (int rank = 1; rank < kRanks; ++rank) {
    others.emplace_back([&, rank] {
      rank_does(rank, [&](const auto& once) {
        for (int i = 0; i < times; ++i) once();
      });
    });
  }
  rank_does(0, [&](const auto& once) {
    for (auto _ : state) once();
  });
  for (std::thread& other : others) other.join();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const std::string folder = argc > 1 ? argv[1] : ".";
  const auto add = [](const std::string& name, const auto& run, const auto&... arguments) {
    return benchmark::RegisterBenchmark(name.c_str(), run, arguments...)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  };
  add("memory", in_memory);
  for (const char* means : {"io_uring", "libaio", "threads"}) {
    add(fmt::format("file-io/{}", means), from_file, folder, means, true);
    add(fmt::format("file/{}", means), from_file, folder, means, false);
  }
  for (const double speed : {2e9, 12e9}) {
    add(fmt::format("host-copies/{:g}", speed), over_link, speed, true);
    add(fmt::format("host/{:g}", speed), over_link, speed, false);
  }
  add("fetch/broadcast", fetch, false)->Iterations(10);
  add("fetch/all-gather", fetch, true)->Iterations(10);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
