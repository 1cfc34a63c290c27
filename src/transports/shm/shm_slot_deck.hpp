// SPDX-License-Identifier: Apache-2.0
// Which of its slots a sender uses.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "transports/shm/shm_line.hpp"

namespace coll {

/// The small slots as their sender sees them: a ring, of which it uses the first ones, at least as
/// many as may be under way. So a slot is free when its turn comes, also where the sender has just
/// begun to use more of them, or fewer.
class ShmSlotRing {
 public:
  ShmSlotRing() = default;
  /// `few` messages may be under way. Once that many were, up to `most` may be. `first`: what both
  /// counts begin with; they may wrap.
  ShmSlotRing(std::uint32_t few, std::uint32_t most, std::uint32_t first = 0)
      : slots_(few), limit_(few), most_(most), free_(few), sent_(first) {}

  /// From now on, messages go round so many slots, but at least `most`. 0: round as many as may be
  /// under way.
  void spread(std::uint32_t slots) { slots_ = slots > 0 ? std::max(slots, most_) : limit_; }

  [[nodiscard]] bool has_one() const { return free_ > 0; }
  /// The slot of the next message.
  [[nodiscard]] std::uint32_t next() const { return next_; }
  /// The next message goes.
  void send() {
    --free_;
    ++sent_;
    if (++next_ >= slots_) next_ = 0;
    if (next_ == limit_) [[unlikely]]
      raise_limit();
  }
  /// `returned` messages have come back so far. False if fewer ever went.
  bool take_back(std::uint32_t returned) {
    const std::uint32_t under_way = sent_ - returned;
    if (under_way > limit_) return false;
    free_ = limit_ - under_way;
    if (free_ == 0) slots_ = std::max(slots_, most_);
    return true;
  }

 private:
  /// Called where the few slots end. The first time, all that is under way lies in them, so more
  /// may follow in others. Later it changes nothing.
  void raise_limit() {
    free_ += most_ - limit_;
    limit_ = most_;
  }

  std::uint32_t slots_ = 0, limit_ = 0, most_ = 0;
  std::uint32_t free_ = 0, next_ = 0, sent_ = 0;
};

/// Where a message lies: in which slot, from which byte on; or nowhere. One word, so that it is
/// read as it was written: see `store_alone` in shm_cell.hpp.
class ShmPlace {
 public:
  ShmPlace() = default;
  ShmPlace(std::uint32_t number, std::uint32_t offset)
      : word_(std::uint64_t{number} << 32 | offset) {}

  [[nodiscard]] bool is_some() const { return word_ != kNowhere; }
  [[nodiscard]] std::uint32_t number() const { return static_cast<std::uint32_t>(word_ >> 32); }
  [[nodiscard]] std::uint32_t offset() const { return static_cast<std::uint32_t>(word_); }

 private:
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  std::uint64_t word_ = kNowhere;
};

/// The large slots as their sender sees them. There are as many messages under way as slots at
/// most, and they come back in the order in which they went. A message has a slot for itself, the
/// one that came back last. Where messages are spread, they lie one behind the other, as a
/// processor's prefetching expects it: a slot is filled, and then the one that has waited longest.
class ShmSlotDeck {
 public:
  ShmSlotDeck() = default;
  /// `first`: what both counts begin with; they may wrap.
  explicit ShmSlotDeck(std::uint32_t count, std::uint32_t first = 0)
      : messages_(count), under_way_(count), sent_(first), returned_(first) {
    while (count > 0) free_.push_back(--count);
  }
  /// Spreads messages over this many bytes of each slot from now on; 0: does not.
  void spread(std::size_t bytes_of_slot) { spread_ = bytes_of_slot; }

  [[nodiscard]] bool has_one() const { return sent_ - returned_ < messages_.size(); }
  /// The slot of the next message, of `bytes`, the same until that is sent; there must be one.
  ShmPlace offer(std::size_t bytes) {
    if (!offered_.is_some()) {
      offered_ = filling_.is_some() ? filling_ : take_free();
      filling_ = {};
    }
    if (offered_.offset() == 0 || offered_.offset() + bytes <= spread_) return offered_;
    if (!is_busy(offered_.number())) free_.push_back(offered_.number());
    return offered_ = take_free();
  }
  /// The next message, for which a slot was offered, will be lent; from then on this slot is
  /// offered. Its receiver may have to copy it there: best into the slot that came back last, which
  /// its cache has. Spread messages go on where they were.
  ShmPlace offer_to_fill() {
    if (spread_ > 0 && !free_.empty()) {
      filling_ = offered_;
      offered_ = {free_.back(), 0};
      free_.pop_back();
    }
    return {offered_.number(), 0};
  }
  /// Calls use(number) for each slot that is neither offered nor under way.
  template <class Use>
  void each_free(Use use) const {
    for (const std::uint32_t slot : free_) use(slot);
    if (filling_.is_some() && !is_busy(filling_.number())) use(filling_.number());
  }
  /// How many were ever sent; wraps.
  [[nodiscard]] std::uint32_t sent() const { return sent_; }
  /// Whether it is time to ask which came back, rather than to use one more. Each time costs a
  /// cache line: at every message, 16 KiB took 8 % longer. Spread messages use all slots, unless
  /// the next one is lent.
  [[nodiscard]] bool wants_back(bool lent = false) const {
    const bool spread = spread_ > 0 && !lent;
    return !spread && !offered_.is_some() && sent_ - returned_ >= kUnasked;
  }
  /// The message of `bytes` goes, in the slot that was offered for it; `lent`: to be filled.
  void send(std::size_t bytes, bool lent) {
    const ShmPlace sent = std::exchange(offered_, {});
    ++messages_[sent.number()];
    under_way_[newest_] = sent.number();
    newest_ = next(newest_);
    ++sent_;
    if (spread_ == 0 || lent) return;
    const std::size_t gap = bytes <= kShort ? kPrefetchedBytes : 0;
    const std::size_t end =
        sent.offset() + (bytes + gap + kCacheLine - 1) / kCacheLine * kCacheLine;
    filling_ = {sent.number(), static_cast<std::uint32_t>(end)};
  }
  /// `returned` messages have come back so far. False if fewer ever went.
  bool take_back(std::uint32_t returned) {
    if (returned - returned_ > sent_ - returned_) return false;
    for (; returned_ != returned; ++returned_) {
      const std::uint32_t slot = under_way_[oldest_];
      oldest_ = next(oldest_);
      const bool is_kept = (offered_.is_some() && offered_.number() == slot) ||
                           (filling_.is_some() && filling_.number() == slot);
      if (--messages_[slot] == 0 && !is_kept) free_.push_back(slot);
    }
    return true;
  }

 private:
  [[nodiscard]] std::size_t next(std::size_t place) const {
    return place + 1 == under_way_.size() ? 0 : place + 1;
  }
  [[nodiscard]] bool is_busy(std::uint32_t slot) const { return messages_[slot] > 0; }
  /// There is one while a message may be sent: each of those under way is in one slot.
  ShmPlace take_free() {
    const auto next = spread_ > 0 ? free_.begin() : std::prev(free_.end());
    const ShmPlace place{*next, 0};
    free_.erase(next);
    return place;
  }

  static constexpr std::uint32_t kUnasked = 2;
  /// Of longer messages, so few lines more do not matter; but fewer messages would fit.
  static constexpr std::size_t kShort = std::size_t{16} << 10;

  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> messages_;   ///< under way, by slot
  std::vector<std::uint32_t> under_way_;  ///< the slot of each, a ring
  ShmPlace offered_;
  ShmPlace filling_;                     ///< where the next message goes that is spread
  std::size_t spread_ = 0;               ///< bytes of each slot
  std::size_t oldest_ = 0, newest_ = 0;  ///< of those under way the first, and behind the last
  std::uint32_t sent_ = 0, returned_ = 0;
};

}  // namespace coll
