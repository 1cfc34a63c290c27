// SPDX-License-Identifier: Apache-2.0
// How far apart in memory what two sides write has to stand.
#pragma once
#include <cstddef>

namespace coll {

inline constexpr std::size_t kCacheLine = 64;
/// Processors fetch lines in pairs, so what two sides write stands at least this far apart.
inline constexpr std::size_t kLinePair = 128;

}  // namespace coll
