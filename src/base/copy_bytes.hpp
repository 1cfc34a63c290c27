// SPDX-License-Identifier: Apache-2.0
// Copies bytes as memcpy does, but not where the C library takes fifteen times as long.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace coll {

/// The C library copies long runs of bytes by `rep movsb`. On AMD's family 25 (Zen 3 and 4), that
/// takes 13 to 16 times as long as a loop where `to` lies 1 to 31 bytes behind `from`, modulo a
/// page (measured on Zen 3: docs/performance.md; of Zen 4 and the C library: bug 2030515 of Ubuntu,
/// 30994 of glibc). Often it lies so: malloc gives large blocks at 16 bytes behind the begin of a
/// page, and slots begin with one.
[[nodiscard, gnu::always_inline]] inline bool lies_a_little_behind(const std::byte* to,
                                                                   const std::byte* from) {
  const auto behind = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  return behind % 4096 - 1 < 31;
}
/// Whether they are so slow here. False until `memory_costs` has measured it, before ranks meet.
extern std::atomic<bool> long_moves_crawl;
/// Shorter runs of bytes the C library copies by loops, on every machine.
inline constexpr std::size_t kLeastLongMove = 2048;

/// Copies by a loop.
void copy_by_loop(std::byte* to, const std::byte* from, std::size_t bytes);

/// As memcpy; of 0 bytes, the pointers may be null. Always inlined: sources that are compiled for
/// one instruction set use it, and must leave no copy to others.
[[gnu::always_inline]] inline void copy_bytes(std::byte* to, const std::byte* from,
                                              std::size_t bytes) {
  if (bytes >= kLeastLongMove && lies_a_little_behind(to, from) &&
      long_moves_crawl.load(std::memory_order_relaxed)) [[unlikely]]
    return copy_by_loop(to, from, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace coll
