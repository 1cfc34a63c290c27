// SPDX-License-Identifier: Apache-2.0
// Which of its slots a sender uses.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "transports/shm/shm_line.hpp"
#include "transports/shm/shm_slot_trial.hpp"

namespace coll {

/// What the cell of a message holds that has a slot: which one, and where in it.
struct ShmSlot {
  std::uint32_t number = 0;
  std::uint32_t offset = 0;  ///< bytes
  ShmTimed timed{};
  std::uint32_t begun = 0;  ///< then: when its sender began, nanoseconds, the last 32 bits
};

/// The small slots as their sender sees them: a ring, of which it uses the first ones, at least as
/// many as may be under way. So a slot is free when its turn comes, also where the sender has just
/// begun to use more of them, or fewer.
class ShmSlotRing {
 public:
  /// From now on, messages go round so many slots.
  void use(std::uint32_t slots) { slots_ = slots; }
  /// The slot of the next message.
  [[nodiscard]] std::uint32_t next() const { return next_; }
  void advance() {
    if (++next_ >= slots_) next_ = 0;
  }

 private:
  std::uint32_t slots_ = 1, next_ = 0;
};

/// The large slots as their sender sees them: the slot offered for the next message; free slots, in
/// the order in which they came back; and slots under way, which come back in the order in which
/// they went. The slot goes first that came back last. Where messages are spread, the slot goes
/// first that has waited longest, and a message begins behind the one before in that slot.
class ShmSlotDeck {
 public:
  ShmSlotDeck() = default;
  /// `first`: what both counts begin with; they may wrap.
  explicit ShmSlotDeck(std::uint32_t count, std::uint32_t first = 0)
      : under_way_(count), sent_(first), returned_(first) {
    while (count > 0) free_.push_back({--count});
  }
  /// Spreads messages over this many bytes of each slot from now on; 0: does not.
  void spread(std::size_t bytes_of_slot) { spread_ = bytes_of_slot; }

  [[nodiscard]] bool has_one() const { return offered_ || !free_.empty(); }
  /// The slot of the next message, of `bytes`, the same until that is sent; there must be one.
  ShmSlot offer(std::size_t bytes) {
    if (!offered_) {
      const auto next = spread_ > 0 ? free_.begin() : std::prev(free_.end());
      offered_ = *next;
      free_.erase(next);
    }
    if (offered_->offset + bytes > spread_) offered_->offset = 0;
    return *offered_;
  }
  /// The next message, for which a slot was offered, will be lent; from then on this slot is
  /// offered. Its receiver may have to copy it there: best into the slot that came back last, which
  /// its cache has. Spread messages go on where they were.
  ShmSlot offer_to_fill() {
    if (spread_ > 0 && !free_.empty()) {
      const ShmSlot last = free_.back();
      free_.pop_back();
      free_.insert(free_.begin(), *offered_);
      offered_ = last;
    }
    return {offered_->number};
  }
  /// Calls use(number) for each slot that is neither offered nor under way.
  template <class Use>
  void each_free(Use use) const {
    for (const ShmSlot& slot : free_) use(slot.number);
  }
  /// How many were ever sent; wraps.
  [[nodiscard]] std::uint32_t sent() const { return sent_; }
  /// Whether it is time to ask which came back, rather than to use one more. Each time costs a
  /// cache line: at every message, 16 KiB took 8 % longer. Spread messages use all slots anyway.
  [[nodiscard]] bool wants_back() const {
    return spread_ == 0 && !offered_ && sent_ - returned_ >= kUnasked;
  }
  /// The message of `bytes` goes, in the slot that was offered for it; `lent`: to be filled.
  void send(std::size_t bytes, bool lent) {
    ShmSlot sent = lent ? *offered_ : offer(bytes);
    if (spread_ > 0 && !lent) {
      const std::size_t gap = bytes <= kShort ? kPrefetchedBytes : 0;
      sent.offset += static_cast<std::uint32_t>((bytes + gap + 63) / 64 * 64);
    }
    under_way_[(oldest_ + (sent_ - returned_)) % under_way_.size()] = sent;
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
  /// Of longer messages, so few lines more do not matter; but fewer messages would fit.
  static constexpr std::size_t kShort = std::size_t{16} << 10;

  std::vector<ShmSlot> free_, under_way_;
  std::optional<ShmSlot> offered_;
  std::size_t spread_ = 0;  ///< bytes of each slot
  std::size_t oldest_ = 0;  ///< the place of the first of those under way
  std::uint32_t sent_ = 0, returned_ = 0;
};

}  // namespace coll
