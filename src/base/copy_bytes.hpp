// SPDX-License-Identifier: Apache-2.0
// Copies bytes as memcpy does, but not where the C library takes fifteen times as long.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace coll {

/// Whether the C library copies such bytes slowly. It copies long ones by `rep movsb`, which on AMD
/// Zen 3 takes 13 to 16 times as long as a loop where `to` lies 1 to 31 bytes behind `from`, modulo
/// a page (docs/performance.md). Often it does: malloc gives large blocks at 16 bytes behind the
/// begin of a page, and slots begin with one.
[[nodiscard, gnu::always_inline]] inline bool memcpy_is_slow([[maybe_unused]] const std::byte* to,
                                                             [[maybe_unused]] const std::byte* from,
                                                             [[maybe_unused]] std::size_t bytes) {
#if defined(__x86_64__)
  const auto behind = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from);
  return bytes >= 2048 && (behind % 4096) - 1 < 31;
#else
  return false;
#endif
}

/// Copies by a loop.
void copy_by_loop(std::byte* to, const std::byte* from, std::size_t bytes);

/// As memcpy; of 0 bytes, the pointers may be null. Always inlined: sources that are compiled for
/// one instruction set use it, and must leave no copy to others.
[[gnu::always_inline]] inline void copy_bytes(std::byte* to, const std::byte* from,
                                              std::size_t bytes) {
  if (memcpy_is_slow(to, from, bytes)) [[unlikely]]
    return copy_by_loop(to, from, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace coll
