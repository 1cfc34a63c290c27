// SPDX-License-Identifier: Apache-2.0
// What it costs to copy memory, one's own and that of another process, measured.
#include "sys/machine/memory_costs.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "base/copy_bytes.hpp"
#include "base/made_once.hpp"
#include "sys/clock.hpp"
#include "sys/fork_safe_mutex.hpp"
#include "sys/memory/peer_memory.hpp"

namespace coll {
namespace {

/// The time of the short copy is subtracted from that of the long one, so what a call costs without
/// its bytes drops out. Both together fit into any core's own cache.
constexpr std::size_t kShort = 4 << 10, kLong = 64 << 10, kPage = 4096;
/// The fastest of this many rounds counts: disturbances only make rounds slower.
constexpr int kRounds = 5;

/// What a further byte takes; at least something, on a clock that saw no difference.
double us_per_byte(double long_us, double short_us) {
  return std::max((long_us - short_us) / (kLong - kShort), 1e-7);
}

template <class Run>
double least_us(Run run) {
  double least = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t start = now_ns();
    if (!run()) return std::numeric_limits<double>::infinity();
    least = std::min(least, 1e-3 * static_cast<double>(now_ns() - start));
  }
  return least;
}

/// Whether memcpy takes many times as long as a loop where a destination `lies_a_little_behind`, as
/// `into + 16` does. Measured: 15 times on one machine, else about as long.
bool measure_crawl(std::byte* into, const std::byte* from) {
  constexpr std::size_t kBytes = 16 << 10;
  constexpr double kManyTimes = 3;
  const auto done = [into] {
    asm volatile("" : : "r"(into) : "memory");  // somebody wants it
    return true;
  };
  const double loop_us = least_us([&] { return copy_by_loop(into + 16, from, kBytes), done(); });
  const double library_us = least_us([&] { return std::memcpy(into + 16, from, kBytes), done(); });
  return library_us > kManyTimes * loop_us;
}

MemoryCosts measure() {
  // Filled: pages that nobody has touched are all one page of zeros. At the begin of pages both:
  // the kernel may be slow where one `lies_a_little_behind` the other.
  std::vector<std::byte> memory(2 * kLong + kPage, std::byte{1});
  void* place = memory.data();
  std::size_t room = memory.size();
  auto* const from = static_cast<std::byte*>(std::align(kPage, 2 * kLong, place, room));
  std::byte* const into = from + kLong;
  long_moves_crawl.store(measure_crawl(into, from), std::memory_order_relaxed);
  const auto copy = [&](std::size_t bytes) {
    return [from, into, bytes] {
      copy_bytes(into, from, bytes);
      asm volatile("" : : "r"(into) : "memory");  // somebody wants it
      return true;
    };
  };
  // A process reads itself as it reads others.
  const auto fetch = [&](std::size_t bytes) {
    return [from, into, bytes] {
      const auto address = reinterpret_cast<std::uintptr_t>(from);
      return read_peer_memory(::getpid(), address, into, bytes).ok();
    };
  };
  const double call_us = least_us(fetch(kShort));
  MemoryCosts costs;
  costs.copy_us_per_byte = us_per_byte(least_us(copy(kLong)), least_us(copy(kShort)));
  costs.fetch_us_per_byte =
      std::isfinite(call_us) ? us_per_byte(least_us(fetch(kLong)), call_us) : call_us;
  if (std::isfinite(call_us))
    costs.fetch_us = std::max(0.0, call_us - kShort * costs.fetch_us_per_byte);
  return costs;
}

ForkSafeMutex g_measuring;  // 0.15 ms; two at the same time would measure each other

}  // namespace

const MemoryCosts& memory_costs() {
  const std::lock_guard alone(g_measuring);
  return made_once([] { return measure(); });
}

}  // namespace coll
