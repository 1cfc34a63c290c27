// SPDX-License-Identifier: Apache-2.0
// How far apart in memory what two sides write has to stand.
#pragma once
#include <cstddef>

namespace coll {

inline constexpr std::size_t kCacheLine = 64;
/// Processors fetch lines in pairs, so what two sides write stands at least this far apart.
inline constexpr std::size_t kLinePair = 128;
/// How far behind a message the next one begins, where it may be written while the first one is
/// read: a processor prefetches up to seven lines past what it reads in order, and would take these
/// from the writer (docs/performance.md). Eight: the message may end within a line.
inline constexpr std::size_t kPrefetchedBytes = 8 * kCacheLine;

}  // namespace coll
