// SPDX-License-Identifier: Apache-2.0
// An algorithm as a value, and the table of all of them.
#pragma once
#include <algorithm>
#include <span>
#include <string_view>

#include "schedule/schedule.hpp"
#include "topology/layout.hpp"

namespace coll {

/// What one call costs the busiest rank, in units of the alpha-beta-gamma model. The head of each
/// algorithm's file states these numbers, a test checks them against the built schedules, and the
/// planner ranks algorithms by them. `sent`, `received` and `reduced` are fractions of S, the size
/// in bytes of the larger of a rank's two buffers.
struct Cost {
  double rounds = 0;        ///< messages on the longest chain of dependent messages
  double sent = 0;          ///< bytes / S sent by the busiest rank
  double received = 0;      ///< bytes / S received by the busiest rank
  double reduced = 0;       ///< bytes / S combined by the busiest rank
  std::uint32_t steps = 0;  ///< steps of the busiest rank, over all lanes
  std::uint32_t scratch_chunks = 0;
  std::uint32_t message_chunks = 1;  ///< chunks of any rank's longest message; 1 if none has data
  std::uint32_t peers = 0;           ///< connections of the busiest rank: pairs of peer and lane
  std::uint32_t chunks = 1;          ///< number of chunks that S is cut into

  /// Bytes / S through the busier direction of a rank.
  [[nodiscard]] double moved() const { return std::max(sent, received); }

  /// Takes each number of the other's that is larger: no one rank need be the busiest in all.
  void raise_to(const Cost& other);
  /// Where bytes were counted in chunks.
  void divide_by_chunks();
};

/// An algorithm: its name, which operations it supports, what they cost, and the pure function that
/// builds a rank's schedule.
struct Algorithm {
  std::string_view name;      ///< "ring", "double_binary_tree"…
  std::string_view sentence;  ///< a sentence that says when it wins
  bool (*supports)(const CollectiveSpec& spec, const Layout& layout);
  Cost (*cost)(const CollectiveSpec& spec, const Layout& layout);
  Schedule (*build)(const CollectiveSpec& spec, const Layout& layout, Rank rank);
  /// Every message is of blocks that both its ends name, so that blocks may have any lengths
  /// (block_lengths.hpp).
  bool any_lengths = false;
  /// Whether it sums in the order of the tree, sides included (SumOrder::sided_tree). Asked only
  /// for operations that it supports. Null: only where there is no other order.
  bool (*in_tree_order)(const CollectiveSpec& spec) = nullptr;
  /// It has advantages only where the order is demanded, and leaves a choice.
  bool for_order_only = false;

  /// Can it do the operation, with unequal blocks and in the order of sums that the spec demands?
  [[nodiscard]] bool serves(const CollectiveSpec& spec, const Layout& layout) const {
    return (any_lengths || !spec.unequal) && keeps_order(spec) && supports(spec, layout);
  }
  /// Should the planner weigh it?
  [[nodiscard]] bool competes(const CollectiveSpec& spec, const Layout& layout) const {
    return serves(spec, layout) && (!for_order_only || has_order(spec));
  }

 private:
  /// Are there several orders? Two ranks have only one, unless sides count.
  [[nodiscard]] static bool has_order(const CollectiveSpec& spec) {
    const Rank without = spec.order == SumOrder::sided_tree ? 1 : 2;
    return spec.order != SumOrder::any && reduces(spec.collective) && spec.ranks > without;
  }
  [[nodiscard]] bool keeps_order(const CollectiveSpec& spec) const {
    return !has_order(spec) || (in_tree_order != nullptr && in_tree_order(spec));
  }
};

/// All algorithms, in a fixed order. For every collective and every number of ranks at least one
/// algorithm supports it (with 1 rank "local", which only copies or does nothing). The exceptions
/// are send and recv, which need two ranks.
std::span<const Algorithm> algorithms();
/// The algorithm of that name; null if there is none.
const Algorithm* find_algorithm(std::string_view name);

}  // namespace coll
