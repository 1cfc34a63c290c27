// SPDX-License-Identifier: Apache-2.0
// The arithmetic of training on one core: each kernel, products of matrices, and a whole GPT.
//
// Sizes are those of the GPT with 0.82 M parameters, and 16 sequences of 64 tokens. GB/s count each
// operand that is read or written once; 1 GB = 1e9 bytes. The table of kernels is the processor's
// best.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "layout/initial_weights.hpp"
#include "math/kernels.hpp"
#include "math/number_format.hpp"
#include "model/gpt.hpp"

namespace training {

namespace avx512 {
Table make_table();
}
namespace avx2 {
Table make_table();
}
namespace baseline {
Table make_table();
}

namespace {

constexpr std::size_t kSequences = 16, kTokens = 64, kRows = kSequences * kTokens, kChannels = 128;

std::vector<float> numbers(std::size_t count) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

void report_bytes(benchmark::State& state, std::size_t bytes) {
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(bytes) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

/// Runs `body` again and again; it reads and writes `bytes`.
template <class Body>
void run(benchmark::State& state, std::size_t bytes, Body body) {
  for (auto _ : state) {
    body();
    benchmark::ClobberMemory();
  }
  report_bytes(state, bytes);
}

void layer_norm(benchmark::State& state) {
  const auto x = numbers(kRows * kChannels), gain = numbers(kChannels), bias = numbers(kChannels);
  std::vector<float> y(x.size()), mean(kRows), scale(kRows);
  run(state, 2 * x.size() * 4, [&] {
    kernels<float>().layer_norm(kRows, kChannels, x.data(), gain.data(), bias.data(), y.data(),
                                mean.data(), scale.data());
  });
}

void layer_norm_backward(benchmark::State& state) {
  const auto x = numbers(kRows * kChannels), gain = numbers(kChannels), mean = numbers(kRows);
  std::vector<float> dx(x.size()), dgain(kChannels), dbias(kChannels);
  run(state, 4 * x.size() * 4, [&] {
    kernels<float>().layer_norm_backward(kRows, kChannels, x.data(), gain.data(), mean.data(),
                                         mean.data(), x.data(), dx.data(), dgain.data(),
                                         dbias.data());
  });
}

void gelu(benchmark::State& state) {
  const auto x = numbers(kRows * 4 * kChannels);
  std::vector<float> y(x.size());
  run(state, 2 * x.size() * 4, [&] { kernels<float>().gelu(x.size(), x.data(), y.data()); });
}

void gelu_backward(benchmark::State& state) {
  const auto x = numbers(kRows * 4 * kChannels);
  std::vector<float> dx(x.size());
  run(state, 3 * x.size() * 4,
      [&] { kernels<float>().gelu_backward(x.size(), x.data(), x.data(), dx.data()); });
}

void row_exponentials(benchmark::State& state) {
  const auto x = numbers(kRows * 63);
  const std::vector<float> maxima(kRows, 4);
  std::vector<float> e = x, sums(kRows);
  run(state, 2 * x.size() * 4, [&] {
    e = x;  // the same values each time
    kernels<float>().row_exponentials(kRows, 63, maxima.data(), e.data(), sums.data());
  });
}

void attention(benchmark::State& state) {
  const AttentionShape shape{kSequences, kTokens, 4, 32};
  const auto qkv = numbers(kRows * shape.stride());
  std::vector<float> p(shape.probabilities()), out(kRows * kChannels);
  run(state, (qkv.size() + p.size() + out.size()) * 4, [&] {
    kernels<float>().attention(shape, kernels<float>().product, qkv.data(), p.data(), out.data());
  });
}

void attention_backward(benchmark::State& state) {
  const AttentionShape shape{kSequences, kTokens, 4, 32};
  const auto qkv = numbers(kRows * shape.stride()), p = numbers(shape.probabilities()),
             dout = numbers(kRows * kChannels);
  std::vector<float> dqkv(qkv.size()), square(kTokens * kTokens);
  run(state, (2 * qkv.size() + p.size() + dout.size()) * 4, [&] {
    kernels<float>().attention_backward(shape, kernels<float>().product, qkv.data(), p.data(),
                                        dout.data(), dqkv.data(), square.data());
  });
}

void sum_rows(benchmark::State& state) {
  const auto x = numbers(kRows * 4 * kChannels);
  std::vector<float> sums(4 * kChannels);
  run(state, x.size() * 4,
      [&] { kernels<float>().sum_rows(kRows, 4 * kChannels, x.data(), sums.data()); });
}

void adam(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto g = numbers(count);
  std::vector<float> w = g, m(count), v(count);
  const AdamStep step{.rate = 1e-3F, .decay = 0.1F, .step_size = 1e-3F, .root_of_correction = 0.5F};
  run(state, 7 * count * 4,
      [&] { table().adam(step, count, g.data(), w.data(), m.data(), v.data()); });
}

void squares(benchmark::State& state) {
  const auto x = numbers(1 << 18);
  std::vector<double> sums(x.size() / 16);
  run(state, x.size() * 4, [&] { table().squares(x.size(), x.data(), sums.data()); });
}

void convert(benchmark::State& state, Format format, bool to_f32) {
  auto wide = numbers(1 << 18);
  std::vector<std::uint16_t> narrowed(wide.size());
  narrow(format, wide.size(), wide.data(), narrowed.data());
  run(state, wide.size() * 6, [&] {
    to_f32 ? widen(format, wide.size(), narrowed.data(), wide.data())
           : narrow(format, wide.size(), wide.data(), narrowed.data());
  });
}

void first_weights(benchmark::State& state) {
  ParameterInfo info;
  info.name = "weight";
  info.rows = 512;
  info.columns = 512;
  info.deviation = 1;
  std::vector<float> to(info.size());
  run(state, to.size() * 4, [&] { initial_values(info, 1, 0, to); });
}

/// A product of a layer: of its forward pass (x W'), for its input (dy W) or its weights (dy' x).
void product(benchmark::State& state, Product<float> of, bool turn_a, bool turn_b, std::size_t m,
             std::size_t n, std::size_t k) {
  const auto a = numbers(m * k), b = numbers(k * n);
  std::vector<float> c(m * n);
  for (auto _ : state) {
    of(turn_a, turn_b, m, n, k, a.data(), turn_a ? m : k, b.data(), turn_b ? k : n, 0, c.data(), n);
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(m * n * k),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

/// A forward and a backward pass of the GPT.
void gpt(benchmark::State& state) {
  const GptShape shape;
  const Units<float> units = gpt_units<float>(shape);
  std::vector<std::int32_t> tokens(kRows);
  std::mt19937_64 random(1);
  for (auto& token : tokens) token = static_cast<std::int32_t>(random() % shape.vocabulary);
  const Batch batch{kSequences, kTokens, tokens, tokens};
  struct Part {
    std::vector<std::vector<float>> weights, gradients;
    std::vector<const float*> w;
    std::vector<float*> g;
    std::vector<float> saved, scratch, output;
    Memory<float> memory;
  };
  std::vector<Part> parts(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    Part& part = parts[u];
    for (const ParameterInfo& info : units[u]->parameters()) {
      initial_values(info, 1, 0, part.weights.emplace_back(info.size()));
      part.w.push_back(part.weights.back().data());
      part.g.push_back(part.gradients.emplace_back(info.size()).data());
    }
    part.saved.resize(units[u]->saved_size(batch));
    part.scratch.resize(units[u]->scratch_size(batch));
    part.output.resize(kRows * units[u]->width());
    part.memory = {part.w, part.g, part.saved.data(), part.scratch.data()};
  }
  std::vector<float> gradient(kRows * kChannels), other(gradient.size());
  for (auto _ : state) {
    Outcome outcome;
    const auto input = [&](std::size_t u) { return u > 0 ? parts[u - 1].output.data() : nullptr; };
    for (std::size_t u = 0; u < units.size(); ++u)
      units[u]->forward(batch, parts[u].memory, input(u), parts[u].output.data(), outcome);
    for (std::size_t u = units.size(); u-- > 0;) {
      units[u]->backward(batch, parts[u].memory, input(u), gradient.data(), other.data(), 1e-3F,
                         [](std::size_t) {});
      std::swap(gradient, other);
    }
    benchmark::DoNotOptimize(outcome);
  }
  state.counters["tokens/s"] =
      benchmark::Counter(kRows, benchmark::Counter::kIsIterationInvariantRate);
}

void register_products(const std::string& name, Product<float> of) {
  struct Size {
    const char* text;
    bool turn_a, turn_b;
    std::size_t m, n, k;
  };
  constexpr std::size_t kWide = 4 * kChannels;
  for (const Size& size : {Size{"up", false, true, kRows, kWide, kChannels},
                           Size{"up_input", false, false, kRows, kChannels, kWide},
                           Size{"up_weights", true, false, kWide, kChannels, kRows},
                           Size{"scores", false, true, kTokens, kTokens, 32},
                           Size{"square", false, false, 512, 512, 512}}) {
    benchmark::RegisterBenchmark(("product/" + name + "/" + size.text).c_str(), product, of,
                                 size.turn_a, size.turn_b, size.m, size.n, size.k);
  }
}

BENCHMARK(layer_norm);
BENCHMARK(layer_norm_backward);
BENCHMARK(gelu);
BENCHMARK(gelu_backward);
BENCHMARK(row_exponentials);
BENCHMARK(attention);
BENCHMARK(attention_backward);
BENCHMARK(sum_rows);
BENCHMARK(adam)->Arg(1 << 18)->Arg(1 << 25);
BENCHMARK(squares);
BENCHMARK_CAPTURE(convert, widen_bf16, Format::bf16, true);
BENCHMARK_CAPTURE(convert, narrow_bf16, Format::bf16, false);
BENCHMARK_CAPTURE(convert, widen_f16, Format::f16, true);
BENCHMARK_CAPTURE(convert, narrow_f16, Format::f16, false);
BENCHMARK(first_weights);
BENCHMARK(gpt);

}  // namespace
}  // namespace training

int main(int argc, char** argv) {
  using namespace training;
  setenv("OPENBLAS_NUM_THREADS", "1", 0);
  benchmark::AddCustomContext("instruction set", table().name);
  register_products("chosen", table().of_float.product);
  register_products("baseline", baseline::make_table().of_float.product);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    register_products("avx2", avx2::make_table().of_float.product);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    register_products("avx512", avx512::make_table().of_float.product);
#endif
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
