// SPDX-License-Identifier: Apache-2.0
// Whole calls through the C ABI, alone and between two ranks over shared memory; first calls and
// repeated ones.
#include <benchmark/benchmark.h>
#include <collectives/collectives.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "benchmarks/sides_benchmark.hpp"

namespace {

using perf::batches;
using perf::kWarmUp;
using perf::TwoProcesses;

constexpr std::size_t kLongest = 1 << 20;
constexpr std::int64_t kSizes = 9;  ///< powers of two, for first calls

/// This process as a rank, with buffers for any operation of up to kLongest bytes.
class Member {
 public:
  Member() { join(nullptr); }  ///< alone
  explicit Member(const TwoProcesses& ranks) : rank_(ranks.rank()), size_(2) { join(&ranks); }
  ~Member() { leave(); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void leave() {
    if (comm_ != nullptr) coll_comm_destroy(comm_);
    comm_ = nullptr;
  }
  [[nodiscard]] bool ready() const { return comm_ != nullptr; }
  [[nodiscard]] coll_comm_t comm() const { return comm_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] const std::byte* send() const { return send_.data(); }
  [[nodiscard]] std::byte* recv() { return recv_.data(); }
  /// Elements where the larger buffer has one block, or one for each rank; sizes are in bytes.
  [[nodiscard]] static std::size_t whole(std::size_t bytes) { return bytes / sizeof(float); }
  [[nodiscard]] std::size_t block(std::size_t bytes) const {
    return whole(bytes) / static_cast<std::size_t>(size_);
  }

 private:
  void join(const TwoProcesses* ranks) {
    coll_unique_id_t id{};
    if (rank_ == 0 && coll_get_unique_id(&id) != COLL_SUCCESS) return explain();
    if (ranks != nullptr) {
      const std::string got = ranks->swap({id.bytes, sizeof id.bytes});
      if (got.size() != sizeof id.bytes) return;
      if (rank_ != 0) std::memcpy(id.bytes, got.data(), sizeof id.bytes);
    }
    coll_config_t config = COLL_CONFIG_INIT;
    config.transports = "shm";
    if (coll_comm_init_rank(&comm_, size_, &id, rank_, &config) != COLL_SUCCESS) explain();
  }
  static void explain() { std::cerr << coll_last_error() << "\n"; }

  int rank_ = 0;
  int size_ = 1;
  coll_comm_t comm_ = nullptr;
  std::vector<std::byte> send_ = std::vector<std::byte>(kLongest, std::byte{1});
  std::vector<std::byte> recv_ = std::vector<std::byte>(kLongest, std::byte{2});
};

/// An operation on floats whose larger buffer has `bytes`.
using Operation = coll_status_t (*)(Member& m, std::size_t bytes);

coll_status_t all_reduce(Member& m, std::size_t bytes) {
  return coll_all_reduce(m.send(), m.recv(), m.whole(bytes), COLL_FLOAT32, COLL_SUM, m.comm(),
                         nullptr);
}
coll_status_t reduce(Member& m, std::size_t bytes) {
  return coll_reduce(m.send(), m.recv(), m.whole(bytes), COLL_FLOAT32, COLL_SUM, 0, m.comm(),
                     nullptr);
}
coll_status_t broadcast(Member& m, std::size_t bytes) {
  return coll_broadcast(m.recv(), m.recv(), m.whole(bytes), COLL_FLOAT32, 0, m.comm(), nullptr);
}
coll_status_t all_gather(Member& m, std::size_t bytes) {
  return coll_all_gather(m.send(), m.recv(), m.block(bytes), COLL_FLOAT32, m.comm(), nullptr);
}
coll_status_t reduce_scatter(Member& m, std::size_t bytes) {
  return coll_reduce_scatter(m.send(), m.recv(), m.block(bytes), COLL_FLOAT32, COLL_SUM, m.comm(),
                             nullptr);
}
coll_status_t all_to_all(Member& m, std::size_t bytes) {
  return coll_all_to_all(m.send(), m.recv(), m.block(bytes), COLL_FLOAT32, m.comm(), nullptr);
}
coll_status_t gather(Member& m, std::size_t bytes) {
  return coll_gather(m.send(), m.recv(), m.block(bytes), COLL_FLOAT32, 0, m.comm(), nullptr);
}
coll_status_t scatter(Member& m, std::size_t bytes) {
  return coll_scatter(m.send(), m.recv(), m.block(bytes), COLL_FLOAT32, 0, m.comm(), nullptr);
}
coll_status_t barrier(Member& m, std::size_t) {
  return coll_barrier(m.comm(), nullptr);
}
/// There and back.
coll_status_t send_recv(Member& m, std::size_t bytes) {
  coll_status_t status = COLL_SUCCESS;
  for (const bool sends : {m.rank() == 0, m.rank() != 0}) {
    if (status != COLL_SUCCESS) break;
    status =
        sends ? coll_send(m.send(), m.whole(bytes), COLL_FLOAT32, 1 - m.rank(), m.comm(), nullptr)
              : coll_recv(m.recv(), m.whole(bytes), COLL_FLOAT32, 1 - m.rank(), m.comm(), nullptr);
  }
  return status;
}

bool works(benchmark::State& state, coll_status_t status) {
  if (status == COLL_SUCCESS) [[likely]]
    return true;
  state.SkipWithError(coll_last_error());
  return false;
}

/// From the C ABI through everything to a copy and back.
void one_rank(benchmark::State& state, Operation operation) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  perf::pin(0);
  Member member;
  if (!member.ready()) return state.SkipWithError("no communicator");
  for (auto _ : state)
    if (!works(state, operation(member, bytes))) break;
}

/// Both ranks make the same calls; rank 0's time. `bytes` names the size of the i-th call.
template <class Bytes>
void together(benchmark::State& state, Operation operation, std::int64_t before, Bytes bytes) {
  const TwoProcesses ranks;
  Member member(ranks);
  ranks.partner([&] {
    for (std::int64_t i = 0; i < before + state.max_iterations && member.ready(); ++i)
      if (operation(member, bytes(i)) != COLL_SUCCESS) break;
    member.leave();
  });
  if (!member.ready()) return state.SkipWithError("no communicator");
  std::int64_t i = 0;
  while (i < before)
    if (!works(state, operation(member, bytes(i++)))) return;
  for (auto _ : state)
    if (!works(state, operation(member, bytes(i++)))) break;
}

/// Blocking calls back to back.
void two_ranks(benchmark::State& state, Operation operation) {
  together(state, operation, kWarmUp,
           [&](std::int64_t) { return static_cast<std::size_t>(state.range(0)); });
}

/// The first call of a communicator: it plans, connects and binds.
void first_call(benchmark::State& state) {
  together(state, all_reduce, 0, [](std::int64_t) { return std::size_t{8}; });
}
/// The first calls of other size classes, 16 B to 4 KiB: they plan and bind.
void first_call_of_a_size(benchmark::State& state) {
  together(state, all_reduce, 1, [](std::int64_t i) { return std::size_t{8} << i; });
}
/// The same calls again.
void second_call_of_a_size(benchmark::State& state) {
  together(state, all_reduce, kSizes, [](std::int64_t i) { return std::size_t{16} << i % kSizes; });
}

/// 8-byte calls that differ in their buffers, in turn: with one, every call finds itself bound; the
/// more there are, the more push each other out of the communicator's table of 32.
void requests(benchmark::State& state) {
  const std::int64_t different = state.range(0);
  perf::pin(0);
  Member member;
  if (!member.ready()) return state.SkipWithError("no communicator");
  std::int64_t next = 0;
  for (auto _ : state) {
    const std::int64_t at = 64 * next;
    if (++next == different) next = 0;
    if (!works(state, coll_all_reduce(member.send() + at, member.recv() + at, 2, COLL_FLOAT32,
                                      COLL_SUM, member.comm(), nullptr)))
      break;
  }
}

BENCHMARK(first_call)->Apply([](auto* benchmark) { batches(benchmark, 1, 20); });
BENCHMARK(first_call_of_a_size)->Apply([](auto* benchmark) { batches(benchmark, kSizes, 20); });
BENCHMARK(second_call_of_a_size)->Apply([](auto* benchmark) { batches(benchmark, kSizes, 20); });
BENCHMARK(requests)->Apply([](auto* benchmark) {
  batches(benchmark, 2000, 20);
  for (const std::int64_t different : {1, 8, 32, 64, 1024}) benchmark->Arg(different);
});

}  // namespace

int main(int argc, char** argv) {
  const std::pair<const char*, Operation> operations[] = {{"all_reduce", all_reduce},
                                                          {"reduce", reduce},
                                                          {"broadcast", broadcast},
                                                          {"all_gather", all_gather},
                                                          {"reduce_scatter", reduce_scatter},
                                                          {"all_to_all", all_to_all},
                                                          {"gather", gather},
                                                          {"scatter", scatter},
                                                          {"send_recv", send_recv},
                                                          {"barrier", barrier}};
  const auto add = [](const std::string& name, auto* run, Operation operation) {
    for (const std::int64_t bytes : {8, 4 << 10, 64 << 10, 1 << 20}) {
      if (operation == barrier && bytes > 8) break;
      auto* benchmark = benchmark::RegisterBenchmark(name.c_str(), run, operation);
      batches(benchmark, bytes > 4 << 10 ? 200 : 5000, 20);
      benchmark->Arg(bytes);
    }
  };
  for (const auto& [name, operation] : operations) {
    if (operation != send_recv) add(std::string("one_rank/") + name, one_rank, operation);
    add(std::string("two_ranks/") + name, two_ranks, operation);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
