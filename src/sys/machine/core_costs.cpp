// SPDX-License-Identifier: Apache-2.0
// How fast a core is, and what it costs to pass memory from one core to another, measured.
#include "sys/machine/core_costs.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/copy_bytes.hpp"
#include "base/made_once.hpp"
#include "sys/clock.hpp"
#include "sys/fd.hpp"
#include "sys/fork_safe_mutex.hpp"
#include "sys/own_thread.hpp"

namespace coll {
namespace {

constexpr std::size_t kPassed = 64 << 10;  ///< bytes: as a slice that passes through slots
constexpr int kTrips = 8;  ///< of a line, there and back, between two looks at the clock
/// The fastest of this many rounds counts: disturbances only make rounds slower.
constexpr int kPairRounds = 6;
/// How long the other thread may take to start: ranks that start together use all cores until they
/// wait for each other. Then, how long all rounds may take. Nothing is known beyond that. The end
/// of the other thread is waited for only so that it usually leaves before its maker goes on.
constexpr std::uint64_t kMostStart_ns = 2'000'000, kMostRounds_ns = 200'000, kMostEnd_ns = 100'000;
constexpr std::chrono::microseconds kNap{50};
constexpr double kUnmeasured = std::numeric_limits<double>::infinity();

double us_since(std::uint64_t start_ns) {
  return 1e-3 * static_cast<double>(now_ns() - start_ns);
}

/// A word on a cache line of its own.
struct alignas(64) Turn {
  std::atomic<std::uint32_t> number{0};
};

/// What both threads use. The last one drops it, so that nobody waits for a thread that has no
/// core.
struct Pair {
  Turn asked, answered;
  std::atomic<bool> ready{false}, over{false}, ended{false};
  // Allocated before the other thread starts: while it runs, nothing fails.
  std::vector<std::byte> passed = std::vector<std::byte>(kPassed);
  std::vector<std::byte> written = std::vector<std::byte>(kPassed, std::byte{0x3f});
  std::vector<std::byte> sums = std::vector<std::byte>(kPassed);
  // The least that the other thread took to copy all, and to add all.
  std::atomic<double> copy_us{kUnmeasured}, add_us{kUnmeasured};

  /// Waits for the other thread's turn; false when it is over.
  bool wait(const Turn& turn, std::uint32_t number, std::uint64_t until_ns) {
    for (int polls = 1; turn.number.load(std::memory_order_acquire) != number; ++polls) {
      if (over.load(std::memory_order_relaxed)) return false;
      if (polls % 64 == 0 && now_ns() > until_ns) return false;
    }
    return true;
  }
};

/// A turn with one of these bits asks to copy or to add what was passed.
constexpr std::uint32_t kToCopy = 1U << 30, kToAdd = 1U << 31;

/// As reductions combine: with more than one number at a time.
void add(std::vector<std::byte>& into, const std::vector<std::byte>& from) {
  using Numbers = float __attribute__((vector_size(16)));
  for (std::size_t at = 0; at < kPassed; at += sizeof(Numbers)) {
    Numbers sum, other;
    std::memcpy(&sum, &into[at], sizeof sum);
    std::memcpy(&other, &from[at], sizeof other);
    sum += other;
    std::memcpy(&into[at], &sum, sizeof sum);
  }
}

/// Does what the turn asks for.
void take(Pair& pair, std::uint32_t asked) {
  const bool adds = (asked & kToAdd) != 0;
  const std::uint64_t start = now_ns();
  if (adds) {
    add(pair.sums, pair.passed);
  } else {
    copy_bytes(pair.sums.data(), pair.passed.data(), kPassed);
  }
  asm volatile("" : : "r"(pair.sums.data()) : "memory");  // somebody wants it
  std::atomic<double>& least = adds ? pair.add_us : pair.copy_us;
  least.store(std::min(least.load(), us_since(start)));
}

void answer(Pair& pair) {
  pair.ready.store(true, std::memory_order_release);
  for (std::uint32_t seen = 0; !pair.over.load(std::memory_order_relaxed);) {
    const std::uint32_t asked = pair.asked.number.load(std::memory_order_acquire);
    if (asked == seen) continue;
    seen = asked;
    if ((asked & (kToCopy | kToAdd)) != 0) take(pair, asked);
    pair.answered.number.store(asked, std::memory_order_release);
  }
}

/// False where the other thread lost its core.
bool ask(Pair& pair, CoreCosts& costs) {
  const std::uint64_t until = now_ns() + kMostRounds_ns;
  std::uint32_t turn = 0;
  double line_us = kUnmeasured, write_us = kUnmeasured;
  for (int round = 0; round < kPairRounds; ++round) {
    const std::uint64_t start = now_ns();
    for (int trip = 0; trip < kTrips; ++trip) {
      pair.asked.number.store(++turn, std::memory_order_release);
      if (!pair.wait(pair.answered, turn, until)) return false;
    }
    line_us = std::min(line_us, us_since(start) / (2 * kTrips));
  }
  for (int round = 0; round < 2 * kPairRounds; ++round) {
    const std::uint32_t kind = round % 2 == 0 ? kToCopy : kToAdd;
    const std::uint64_t start = now_ns();
    copy_bytes(pair.passed.data(), pair.written.data(), kPassed);
    asm volatile("" : : "r"(pair.passed.data()) : "memory");
    write_us = std::min(write_us, us_since(start));
    pair.asked.number.store(++turn | kind, std::memory_order_release);
    if (!pair.wait(pair.answered, turn | kind, until)) return false;
  }
  costs.line_us = line_us;
  costs.pass_us_per_byte = (write_us + (pair.copy_us.load() + pair.add_us.load()) / 2) / kPassed;
  return true;
}

/// Held by the one process of this machine that measures: processes that measured at the same time
/// would keep the cores from each other's threads. Any file serves that all of them can open.
Fd sole_measurement() {
  return Fd(::open("/sys/devices/system/cpu/online", O_RDONLY | O_CLOEXEC));
}

void measure_pair(CoreCosts& costs) {
  const Fd lock = sole_measurement();
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return;
  cpu_set_t others;
  CPU_ZERO(&others);
  const int own = sched_getcpu();
  if (own < 0 || sched_getaffinity(0, sizeof others, &others) != 0) return;
  CPU_CLR(static_cast<unsigned>(own), &others);
  if (CPU_COUNT(&others) == 0) return;
  const auto pair = std::make_shared<Pair>();
  Result<std::thread> helper = start_thread("coll-measure", "that measures cores", [pair, others] {
    if (sched_setaffinity(0, sizeof others, &others) == 0) answer(*pair);
    pair->ended.store(true, std::memory_order_release);
  });
  if (!helper.ok()) return;
  // Not joined: where its core is taken by real-time work or throttled, it may not end for long.
  // The library is linked with -z nodelete, so its code is still there then.
  helper->detach();
  const std::uint64_t until = now_ns() + kMostStart_ns;
  while (!pair->ready.load(std::memory_order_acquire) && now_ns() < until) {
    std::this_thread::sleep_for(kNap);
  }
  const bool ready = pair->ready.load(std::memory_order_acquire);
  CoreCosts measured = costs;
  const bool whole = ready && ask(*pair, measured);
  pair->over.store(true, std::memory_order_relaxed);
  if (!whole) return;  // it has no core, and ends when it gets one
  const std::uint64_t end = now_ns() + kMostEnd_ns;
  while (!pair->ended.load(std::memory_order_acquire) && now_ns() < end) {
  }
  if (sched_getcpu() == own) costs = measured;
}

double measure_chain() {
  double least = kUnmeasured;
  for (int round = 0; round < kPairRounds; ++round) {
    std::uint64_t value = static_cast<std::uint64_t>(round);
    const std::uint64_t start = now_ns();
    for (std::uint64_t i = 0; i < 1000; ++i) value = (value ^ i) * 0x100000001b3;
    asm volatile("" : : "r"(value));
    least = std::min(least, us_since(start));
  }
  return least;
}

/// Held for 3 ms at most. Of two threads that measured at the same time, the second would find the
/// first in its way, and its result, that nothing is known, could be the one that is kept.
ForkSafeMutex g_measuring_cores;

}  // namespace

const CoreCosts& core_costs() {
  const std::lock_guard alone(g_measuring_cores);
  return made_once([] {
    CoreCosts costs;
    costs.chain_us = measure_chain();
    measure_pair(costs);
    return costs;
  });
}

}  // namespace coll
