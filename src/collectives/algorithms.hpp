// SPDX-License-Identifier: Apache-2.0
// An algorithm as a value, and the table of all of them.
#pragma once
#include <algorithm>
#include <span>
#include <string_view>

#include "schedule/schedule.hpp"
#include "topology/layout.hpp"

namespace coll {

/// What one call costs a rank at most, in the alpha-beta-gamma model's units. A test checks these
/// numbers, which stand at the head of each algorithm's file, against the built schedules; the
/// planner ranks by them. `sent`, `received` and `reduced` are fractions of the operation's size S:
/// the bytes of the larger of a rank's two buffers.
struct Cost {
  double rounds = 0;        ///< messages one after another on the longest path
  double sent = 0;          ///< bytes / S sent by the busiest rank
  double received = 0;      ///< bytes / S received by the busiest rank
  double reduced = 0;       ///< bytes / S combined by the busiest rank
  std::uint32_t steps = 0;  ///< of the busiest rank, all lanes
  std::uint32_t scratch_chunks = 0;
  std::uint32_t message_chunks = 1;  ///< of the longest message of any rank; 1 where none has data
  std::uint32_t peers = 0;           ///< connections of the busiest rank: pairs of peer and lane
  std::uint32_t chunks = 1;          ///< that S is cut into

  /// Bytes / S that pass through the busiest direction of a rank.
  [[nodiscard]] double moved() const { return std::max(sent, received); }
};

/// One algorithm: a name, what it can do, what it costs, and the pure function.
struct Algorithm {
  std::string_view name;      ///< the design's words: "ring", "double_binary_tree"…
  std::string_view sentence;  ///< when it wins
  bool (*supports)(const CollectiveSpec& spec, const Layout& layout);
  Cost (*cost)(const CollectiveSpec& spec, const Layout& layout);
  Schedule (*build)(const CollectiveSpec& spec, const Layout& layout, Rank rank);
};

/// All of them, in a fixed order. For every collective and any rank count at least one supports it
/// (1 rank: "local", which only copies, or does nothing), but send and recv, which need two.
std::span<const Algorithm> algorithms();
const Algorithm* find_algorithm(std::string_view name);

}  // namespace coll
