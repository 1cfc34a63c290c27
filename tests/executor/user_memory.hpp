// SPDX-License-Identifier: Apache-2.0
// Which places of its user's memory a rank's steps name.
#pragma once
#include <gtest/gtest.h>

#include "collectives/built.hpp"

namespace coll {

/// Where a rank's user buffers lie, in chunks of one memory.
struct Memory {
  std::int64_t input = 0;
  std::int64_t output = 0;

  static Memory apart(const Schedule& schedule) {
    return {.input = 0, .output = schedule.chunks.chunks(Space::input) + 7};
  }
  /// The larger buffer is the memory.
  static Memory in_one(const Schedule& schedule, const InPlace& place) {
    const std::int64_t inner = std::int64_t{place.offset_blocks} * schedule.chunks.parts;
    return place.input_inside_output ? Memory{inner, 0} : Memory{0, inner};
  }
};

struct Extent {
  std::int64_t begin = 0, end = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
  [[nodiscard]] bool meets(const Extent& other) const {
    return begin < other.end && other.begin < end;
  }
};

/// Empty in scratch, which is no user's memory.
inline Extent extent_of(const Memory& memory, const Operand& operand, std::uint32_t count) {
  if (operand.space != Space::input && operand.space != Space::output) return {};
  const std::int64_t base = operand.space == Space::input ? memory.input : memory.output;
  return {base + operand.chunk, base + operand.chunk + count};
}

/// All ranks on one host; and every third on another one, which hierarchical algorithms need.
inline std::vector<Layout> layouts_of(Rank ranks) {
  std::vector<Place> places;
  for (Rank rank = 0; rank < ranks; ++rank) places.push_back({.host = rank % 3 == 2 ? 1 : 0});
  return {Layout::flat(ranks), make_layout(places)};
}

/// Calls check(schedules of all ranks) for every algorithm, operation, root and up to 9 ranks.
template <class Check>
void for_each_call(Check check) {
  for (const Algorithm& algorithm : algorithms()) {
    for (int i = 0; i < kCollectives; ++i) {
      for (Rank ranks = 1; ranks <= 9; ++ranks) {
        for (Rank root = 0; root < (has_root(collective_at(i)) ? ranks : 1); ++root) {
          const CollectiveSpec spec{collective_at(i), ranks, root};
          for (const Layout& layout : layouts_of(ranks)) {
            if (!algorithm.supports(spec, layout)) continue;
            SCOPED_TRACE(describe(algorithm, spec));
            check(build_all(algorithm, spec, layout));
            if (::testing::Test::HasFailure()) return;  // one is enough
          }
        }
      }
    }
  }
}

}  // namespace coll
