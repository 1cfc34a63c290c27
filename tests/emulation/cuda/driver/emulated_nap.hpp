// SPDX-License-Identifier: Apache-2.0
// How threads of the driver wait for a word of memory to change, also where another process changes
// it.
#pragma once
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <ctime>

namespace emucuda {

/// Sleeps until `wake` is called for the word, at most for so long, and not at all if its lower 32
/// bits are no longer `seen`. Invisible to the thread sanitizer, as it should be: it orders
/// nothing.
inline void nap(const void* word, std::uint64_t seen, long nanoseconds) {
  const timespec limit{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  syscall(SYS_futex, word, FUTEX_WAIT, static_cast<std::uint32_t>(seen), &limit, nullptr, 0);
}

inline void wake(const void* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Calls `seen()`, which reads the word, until `enough` of what it read; naps of at most `longest`
/// in between.
template <class Read, class Enough>
void await(const void* word, long longest, const Read& read, const Enough& enough) {
  constexpr int kYields = 10;
  long limit = 50'000;
  for (int turn = 0;; ++turn) {
    const std::uint64_t seen = read();
    if (enough(seen)) return;
    if (turn < kYields) {
      sched_yield();
    } else {
      nap(word, seen, limit);
      limit = std::min(2 * limit, longest);
    }
  }
}

}  // namespace emucuda
