// SPDX-License-Identifier: Apache-2.0
// The reduction kernels beside memcpy at the same size.
//
// GB/s is the bytes of ONE operand per second (a pass reads two operands and writes one result, a
// memcpy reads one and writes one), 1 GB = 1e9 bytes. COLL_ISA lowers the instruction set.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "reduce/reduce.hpp"

namespace {

using namespace coll;
using namespace coll::reduce;

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};

/// Page-aligned, touched, and full of moderate numbers in every dtype (f16: about 1, f32: 0.5 …).
std::unique_ptr<std::byte, Free> buffer(std::size_t bytes) {
  const std::size_t whole = (bytes + 4095) / 4096 * 4096;
  auto* p = static_cast<std::byte*>(std::aligned_alloc(4096, whole));
  for (std::size_t i = 0; i < whole; ++i) p[i] = static_cast<std::byte>(i % 2 ? 0x3f : i % 128);
  return std::unique_ptr<std::byte, Free>(p);
}

void report(benchmark::State& state, std::size_t bytes) {
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(bytes) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void run_memcpy(benchmark::State& state, std::size_t bytes) {
  const auto in = buffer(bytes), out = buffer(bytes);
  for (auto _ : state) {
    std::memcpy(out.get(), in.get(), bytes);
    benchmark::ClobberMemory();
  }
  report(state, bytes);
}

void run_pass(benchmark::State& state, ReduceOp op, DataType type, Store how, std::size_t bytes) {
  const auto a = buffer(bytes), b = buffer(bytes), out = buffer(bytes);
  const Combine pass = kernels(op, type).finish[static_cast<std::size_t>(how)];
  const std::size_t count = bytes / size_of(type);
  for (auto _ : state) {
    pass(out.get(), a.get(), b.get(), count, 3);
    benchmark::ClobberMemory();
  }
  report(state, bytes);
}

std::string text(std::size_t bytes) {
  if (bytes >= 1 << 20) return std::to_string(bytes >> 20) + "MiB";
  if (bytes >= 1 << 10) return std::to_string(bytes >> 10) + "KiB";
  return std::to_string(bytes) + "B";
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::AddCustomContext("instruction set", std::string(instruction_set()));
  benchmark::AddCustomContext("GB/s", "bytes of one operand per second, 1 GB = 1e9 bytes");
  const std::size_t sizes[] = {8, 16 << 10, 256 << 10, 16 << 20, 256 << 20};
  for (const std::size_t bytes : sizes) {
    benchmark::RegisterBenchmark(("memcpy/" + text(bytes)).c_str(), run_memcpy, bytes);
    for (int op = 0; op < kReduceOps; ++op)
      for (int type = 0; type < kDataTypes; ++type)
        for (const Store how : {Store::cached, Store::streaming}) {
          if (how == Store::streaming && bytes < 1 << 20) continue;  // not meant for these
          const auto o = static_cast<ReduceOp>(op);
          const auto t = static_cast<DataType>(type);
          if (!has_meaning(o, t)) continue;
          const std::string name = std::string(name_of(o)) + "/" + std::string(name_of(t)) + "/" +
                                   text(bytes) + (how == Store::streaming ? "/streaming" : "");
          benchmark::RegisterBenchmark(name.c_str(), run_pass, o, t, how, bytes);
        }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
