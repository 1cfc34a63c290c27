// SPDX-License-Identifier: Apache-2.0
// One connection between two pinned threads, or processes, beside what the machine itself needs to
// move a cache line.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "benchmarks/shared_link_benchmark.hpp"
#include "benchmarks/sides_benchmark.hpp"
#include "transports/transport.hpp"

namespace {

using coll::Connection;
using coll::Rank;

using perf::batches;
using perf::kWarmUp;
using perf::pin;
using perf::SharedLink;
using perf::TwoProcesses;

/// The other rank as a thread: repeats `body` until the benchmark is over.
class Partner {
 public:
  template <class Body>
  explicit Partner(Body body)
      : thread_([this, body = std::move(body)]() mutable {
          pin(1);
          while (!stop_.load(std::memory_order_relaxed)) body(stop_);
        }) {}
  ~Partner() {
    stop_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Two ranks in this process with one connection.
struct Pair {
  using Make = coll::Result<std::unique_ptr<coll::Transport>> (*)(const coll::TransportSpec&);

  Pair(Make make, std::size_t slot_bytes, std::uint32_t credits)
      : ready(connect(make, slot_bytes, credits)) {}
  bool connect(Make make, std::size_t slot_bytes, std::uint32_t credits) {
    for (const Rank rank : {0, 1}) {
      auto made = make({.rank = rank, .size = 2, .job = {1, 2}, .interface = {}});
      if (!made.ok()) return fail(made.status());
      transports[rank] = *std::move(made);
    }
    for (const Rank rank : {0, 1}) {
      auto opened = transports[rank]->open(
          {.peer = 1 - rank, .lane = 0, .slot_bytes = slot_bytes, .credits = credits},
          transports[1 - rank]->descriptor());
      if (!opened.ok()) return fail(opened.status());
      ends[rank] = *std::move(opened);
    }
    while (!ends[0]->ready() || !ends[1]->ready()) {
      for (const Rank rank : {0, 1}) {
        transports[rank]->poll();
        if (!ends[rank]->status().ok()) return fail(ends[rank]->status());
      }
    }
    return true;
  }
  static bool fail(const coll::Status& status) {
    std::cerr << status.text() << "\n";
    return false;
  }

  std::unique_ptr<coll::Transport> transports[2];
  std::unique_ptr<Connection> ends[2];
  bool ready;
};

void nudge(Connection& connection) {
  if (coll::ProgressSource* source = connection.progress_source()) source->progress();
}

/// The machine's own: a round trip of one line between two cores.
void raw_line(benchmark::State& state) {
  struct alignas(128) Line {
    std::atomic<std::uint64_t> value{0};
  };
  static Line there;
  static Line back;
  there.value = 0;
  back.value = 0;
  pin(0);
  std::uint64_t turn = 0;
  const Partner partner([last = std::uint64_t{0}](const auto&) mutable {
    const std::uint64_t now = there.value.load(std::memory_order_acquire);
    if (now != last) back.value.store(last = now, std::memory_order_release);
  });
  const auto round_trip = [&] {
    there.value.store(++turn, std::memory_order_release);
    while (back.value.load(std::memory_order_acquire) != turn) {
    }
  };
  for (int i = 0; i < kWarmUp; ++i) round_trip();
  for (auto _ : state) round_trip();
}

/// There and back, `bytes` each way.
void ping_pong(benchmark::State& state, Pair::Make make) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Pair pair(make, std::max<std::size_t>(bytes, 64), 8);
  if (!pair.ready) return state.SkipWithError("no connection");
  pin(0);
  std::vector<std::byte> out(bytes), in(bytes);
  Connection& here = *pair.ends[0];
  const Partner partner([&there = *pair.ends[1], buffer = std::vector<std::byte>(bytes)](
                            const std::atomic<bool>& stop) mutable {
    if (!there.receive(buffer.data(), buffer.size(), 1)) return nudge(there);
    while (!there.send(buffer.data(), buffer.size(), 1) && !stop) nudge(there);
  });
  const auto round_trip = [&] {
    while (!here.send(out.data(), bytes, 1)) nudge(here);
    while (!here.receive(in.data(), bytes, 1)) nudge(here);
  };
  for (int i = 0; i < kWarmUp; ++i) round_trip();
  for (auto _ : state) round_trip();
}

/// One way, out of 4 MiB into 4 MiB; `both`: both ways at once.
void stream(benchmark::State& state, Pair::Make make, bool both) {
  const auto slot = static_cast<std::size_t>(state.range(0));
  constexpr std::size_t kBuffer = 4 << 20;
  Pair pair(make, slot, static_cast<std::uint32_t>(state.range(1)));
  if (!pair.ready) return state.SkipWithError("no connection");
  pin(0);
  struct Side {
    /// Tries what is left of one buffer.
    bool send(Connection& end, std::size_t bytes) {
      if (sent == kBuffer || !end.send(out.data() + sent, bytes, 1)) return false;
      sent += bytes;
      return true;
    }
    bool receive(Connection& end, std::size_t bytes) {
      if (got == kBuffer || !end.receive(in.data() + got, bytes, 1)) return false;
      got += bytes;
      return true;
    }
    std::vector<std::byte> out = std::vector<std::byte>(kBuffer, std::byte{1});
    std::vector<std::byte> in = std::vector<std::byte>(kBuffer, std::byte{2});
    std::size_t sent = 0;
    std::size_t got = 0;
  };
  Side here;
  const Partner partner(
      [&end = *pair.ends[1], there = Side(), slot, both](const std::atomic<bool>& stop) mutable {
        there.sent = both ? 0 : kBuffer;
        there.got = 0;
        while ((there.sent < kBuffer || there.got < kBuffer) && !stop) {
          there.receive(end, slot);
          there.send(end, slot);
          nudge(end);
        }
        while (!both && !end.send(there.out.data(), 0, 2) && !stop) nudge(end);
      });
  const auto one_buffer = [&] {
    here.sent = 0;
    here.got = both ? 0 : kBuffer;
    while (here.sent < kBuffer || here.got < kBuffer) {
      here.send(*pair.ends[0], slot);
      here.receive(*pair.ends[0], slot);
      nudge(*pair.ends[0]);
    }
    while (!both && !pair.ends[0]->receive(nullptr, 0, 2)) nudge(*pair.ends[0]);
  };
  one_buffer();
  for (auto _ : state) one_buffer();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBuffer));
}

bool is_lent(Connection& to, const std::byte* data, std::size_t bytes) {
  coll::Lending* lending = to.lending();
  return lending != nullptr && bytes >= lending->least_loan() &&
         lending->lends(data, bytes, coll::Fetch::always);
}
/// Through a slot, or fetched by the receiver if `lend` and the connection agrees.
bool give(Connection& to, const std::byte* data, std::size_t bytes, bool lend) {
  return lend && is_lent(to, data, bytes) ? to.lending()->lend(data, bytes, 1)
                                          : to.send(data, bytes, 1);
}

void process_ping_pong(benchmark::State& state, bool lend) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const TwoProcesses ranks;
  std::vector<std::byte> out(bytes, std::byte{1}), in(bytes, std::byte{2});
  const SharedLink link(ranks, 1, std::max<std::size_t>(bytes, 64));
  if (!link.ready()) return state.SkipWithError("no connection");
  Connection& here = link.end();
  ranks.partner([&] {
    while (!ranks.stop()) {
      if (!here.receive(in.data(), bytes, 1)) continue;
      while (!give(here, out.data(), bytes, lend) && !ranks.stop()) {
      }
    }
  });
  const auto round_trip = [&] {
    while (!give(here, out.data(), bytes, lend)) {
    }
    while (!here.receive(in.data(), bytes, 1)) {
    }
    while (!here.flushed(here.mark())) {
    }
  };
  for (int i = 0; i < kWarmUp; ++i) round_trip();
  for (auto _ : state) round_trip();
  state.counters["lent"] = lend && is_lent(here, out.data(), bytes);
}

/// One way, out of 4 MiB into 4 MiB.
void process_stream(benchmark::State& state, bool lend) {
  const auto slot = static_cast<std::size_t>(state.range(0));
  constexpr std::size_t kBuffer = 4 << 20;
  const TwoProcesses ranks;
  std::vector<std::byte> buffer(kBuffer, std::byte{1});  // each rank has its own
  const SharedLink link(ranks, 1, slot);
  if (!link.ready()) return state.SkipWithError("no connection");
  Connection& here = link.end();
  ranks.partner([&] {
    while (!ranks.stop()) {
      for (std::size_t got = 0; got < kBuffer && !ranks.stop();)
        if (here.receive(buffer.data() + got, slot, 1)) got += slot;
      while (!here.send(nullptr, 0, 2) && !ranks.stop()) {
      }
    }
  });
  const auto one_buffer = [&] {
    for (std::size_t sent = 0; sent < kBuffer;)
      if (give(here, buffer.data() + sent, slot, lend)) sent += slot;
    while (!here.receive(nullptr, 0, 2)) {
    }
    while (!here.flushed(here.mark())) {
    }
  };
  one_buffer();
  for (auto _ : state) one_buffer();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBuffer));
  state.counters["lent"] = lend && is_lent(here, buffer.data(), slot);
}

void alone(benchmark::internal::Benchmark* benchmark) {
  batches(benchmark, 200, 100);
}
void sizes(benchmark::internal::Benchmark* benchmark) {
  alone(benchmark);
  for (const std::int64_t bytes : {8, 48, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10})
    benchmark->Arg(bytes);
}
void streams(benchmark::internal::Benchmark* benchmark) {
  batches(benchmark, 2, 30);
  benchmark->ArgNames({"slot", "credits"});
  for (const std::int64_t slot : {16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10})
    for (const std::int64_t credits : {2, 4, 8, 16}) benchmark->Args({slot, credits});
}

void short_and_long(benchmark::internal::Benchmark* benchmark) {
  batches(benchmark, 200, 30);
  for (const std::int64_t bytes : {8, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20})
    benchmark->Arg(bytes);
}
void long_messages(benchmark::internal::Benchmark* benchmark) {
  batches(benchmark, 20, 30);
  for (const std::int64_t bytes : {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20})
    benchmark->Arg(bytes);
}

BENCHMARK(raw_line)->Apply(alone);
BENCHMARK_CAPTURE(ping_pong, shm, coll::make_shm_transport)->Apply(sizes);
BENCHMARK_CAPTURE(ping_pong, tcp, coll::make_tcp_transport)->Apply(sizes);
BENCHMARK_CAPTURE(stream, shm_one_way, coll::make_shm_transport, false)->Apply(streams);
BENCHMARK_CAPTURE(stream, shm_both_ways, coll::make_shm_transport, true)->Apply(streams);
BENCHMARK_CAPTURE(process_ping_pong, shm_through_slots, false)->Apply(short_and_long);
BENCHMARK_CAPTURE(process_ping_pong, shm_fetched, true)->Apply(short_and_long);
BENCHMARK_CAPTURE(process_stream, shm_through_slots, false)->Apply(long_messages);
BENCHMARK_CAPTURE(process_stream, shm_fetched, true)->Apply(long_messages);

}  // namespace

BENCHMARK_MAIN();
