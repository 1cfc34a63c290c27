// SPDX-License-Identifier: Apache-2.0
// AdamW's kernel beside a scalar loop and STREAM's triad (McCalpin 1995), in the cache and from
// memory, on 1 thread and several.
//
// GB/s is what moves between processor and memory as STREAM counts it, 1 GB = 1e9 bytes: 28 bytes
// for each parameter, 12 for each element of the triad.
#include <benchmark/benchmark.h>

#include <cmath>
#include <latch>
#include <string>

#include "math/kernels.hpp"
#include "memory/arena.hpp"
#include "offload/worker_pool.hpp"

namespace {

using namespace training;

/// The kernel's formula, one element after another.
#if defined(__clang__)
#define ONE_BY_ONE _Pragma("clang loop vectorize(disable)")
#else
#define ONE_BY_ONE
__attribute__((optimize("no-tree-vectorize")))
#endif
void scalar(const AdamStep& step, std::size_t n, const float* gradient, float* w, float* m,
            float* v) {
  ONE_BY_ONE
  for (std::size_t i = 0; i < n; ++i) {
    const float g = gradient[i] * step.scale;
    m[i] = step.beta1 * m[i] + (1 - step.beta1) * g;
    v[i] = step.beta2 * v[i] + (1 - step.beta2) * (g * g);
    const float denominator = std::sqrt(v[i]) / step.root_of_correction + step.epsilon;
    w[i] -= step.rate * step.decay * w[i] + step.step_size * (m[i] / denominator);
  }
}

#ifndef __clang__
__attribute__((optimize("O3")))  // GCC vectorizes from there on; clang does so at -O2
#endif
void triad(const AdamStep& step, std::size_t n, const float* __restrict b, float* __restrict c,
           float* __restrict a, float* /*unused*/) {
  const float factor = step.scale;
  for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + factor * c[i];
}

using Pass = void (*)(const AdamStep&, std::size_t, const float*, float*, float*, float*);

void run(benchmark::State& state, Pass pass, std::size_t count, std::size_t threads,
         std::size_t bytes) {
  Arena arena;
  Block<float> arrays[4];
  for (Block<float>& array : arrays) {
    array = arena.take<float>(count, Use::optimizer);
    std::ranges::fill(array.span(), 0.5F);
  }
  const AdamStep step{.rate = 1e-3F, .decay = 0.1F, .step_size = 1e-3F, .root_of_correction = 0.9F};
  WorkerPool helpers(threads - 1);
  const std::size_t part = count / threads;
  const auto run_part = [&](std::size_t i) {
    const auto of = [&](std::size_t array) { return arrays[array].data() + i * part; };
    pass(step, part, of(0), of(1), of(2), of(3));
  };
  for (auto _ : state) {
    std::latch done(static_cast<std::ptrdiff_t>(threads - 1));
    for (std::size_t i = 1; i < threads; ++i) {
      helpers.add([&, i](std::size_t /*worker*/) {
        run_part(i);
        done.count_down();
      });
    }
    run_part(0);
    done.wait();
    benchmark::ClobberMemory();
  }
  using benchmark::Counter;
  state.counters["GB/s"] =
      Counter(static_cast<double>(bytes * count) * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["params"] =
      Counter(static_cast<double>(count), Counter::kIsIterationInvariantRate);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::AddCustomContext("instruction set", table().name);
  for (const std::size_t count : {std::size_t{1} << 20U, std::size_t{1} << 25U}) {
    for (const std::size_t threads : {1U, 2U}) {
      const auto add = [&](const std::string& name, Pass pass, std::size_t bytes) {
        const std::string whole =
            name + "/" + std::to_string(count) + "/" + std::to_string(threads);
        benchmark::RegisterBenchmark(whole.c_str(), run, pass, count, threads, bytes)
            ->UseRealTime();
      };
      add("triad", triad, 12);
      add("scalar", scalar, 28);
      add("kernel", table().adam, 28);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
