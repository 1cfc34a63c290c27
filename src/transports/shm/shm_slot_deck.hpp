// SPDX-License-Identifier: Apache-2.0
// Which of its large slots a sender uses.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace coll {

/// What the cell of a message holds that has a large slot: which one.
struct ShmSlot {
  std::uint32_t number = 0;
};

/// The large slots as their sender sees them: the slot offered for the next message; free slots,
/// the last to come back on top; and slots under way, which come back in the order in which they
/// went.
class ShmSlotDeck {
 public:
  ShmSlotDeck() = default;
  /// `first`: what both counts begin with; they may wrap.
  explicit ShmSlotDeck(std::uint32_t count, std::uint32_t first = 0)
      : under_way_(count), sent_(first), returned_(first) {
    while (count > 0) free_.push_back({--count});
  }

  [[nodiscard]] bool has_one() const { return offered_ || !free_.empty(); }
  /// The slot of the next message, the same until that is sent; there must be one.
  [[nodiscard]] ShmSlot next() const { return offered_ ? *offered_ : free_.back(); }
  ShmSlot offer() {
    if (!offered_) {
      offered_ = free_.back();
      free_.pop_back();
    }
    return *offered_;
  }
  /// Whether it is time to ask which came back, rather than to use one more. Each time costs a
  /// cache line: at every message, 16 KiB took 8 % longer.
  [[nodiscard]] bool wants_back() const { return !offered_ && sent_ - returned_ >= kUnasked; }
  /// The next one goes.
  void send() {
    under_way_[(oldest_ + (sent_ - returned_)) % under_way_.size()] = offer();
    offered_.reset();
    ++sent_;
  }
  /// `returned` slots have come back so far. False if fewer ever went.
  bool take_back(std::uint32_t returned) {
    if (returned - returned_ > sent_ - returned_) return false;
    for (; returned_ != returned; ++returned_) {
      free_.push_back(under_way_[oldest_]);
      oldest_ = (oldest_ + 1) % under_way_.size();
    }
    return true;
  }

 private:
  static constexpr std::uint32_t kUnasked = 2;

  std::vector<ShmSlot> free_, under_way_;
  std::optional<ShmSlot> offered_;
  std::size_t oldest_ = 0;  ///< the place of the first of those under way
  std::uint32_t sent_ = 0, returned_ = 0;
};

}  // namespace coll
