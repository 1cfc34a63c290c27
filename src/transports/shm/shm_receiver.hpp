// SPDX-License-Identifier: Apache-2.0
// ShmReceiver: the end of a FIFO that reads messages.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>

#include "transports/shm/shm_fifo.hpp"

namespace coll {

/// Which small slot comes next. The cell says it. But where it was foreseen, the processor asks for
/// the lines of the slot together with that of the cell, not one after the other: 256 bytes took
/// 0.12 us less between far cores, and 0.02 us less between near ones.
class ShmForeseenSlot {
 public:
  ShmForeseenSlot() = default;
  explicit ShmForeseenSlot(std::uint32_t count) : count_(count), ring_(count) {}

  /// The slot that the cell says; the last one of all if the cell says one that is not there.
  [[gnu::always_inline]] std::uint32_t at(std::uint32_t said) {
    std::uint32_t slot = next_;
    asm("" : "+r"(slot));  // or the compiler takes `said` where both are equal, and waits for it
    if (said != next_) [[unlikely]] {
      asm volatile("");  // a branch, which can be predicted, and not a choice
      ring_ = said == 0 ? next_ : count_;
      next_ = slot = std::min(said, count_ - 1);
    }
    return slot;
  }
  void advance() {
    if (++next_ == ring_) next_ = 0;
  }

 private:
  std::uint32_t count_ = 0, next_ = 0;
  std::uint32_t ring_ = 0;  ///< so many slots the sender goes round, as far as known
};

class ShmReceiver final : ShmCursor {
 public:
  using ShmCursor::position;
  enum class Next : std::uint8_t { none, expected, lent, other };

  ShmReceiver() = default;
  explicit ShmReceiver(const ShmFifo& fifo, std::uint32_t first = 1)
      : ShmCursor(fifo, first), batch_(fifo.cell_count / 4), small_(fifo.slots[0].count) {}

  /// Is the next message there, and the expected one? What the peer wrote is compared, never used
  /// as a length; where it says that a loan lies is checked by who reads it there.
  [[nodiscard]] Next next(std::size_t bytes, std::uint64_t digest) const {
    const std::uint64_t tag = cell().tag.load(std::memory_order_acquire);
    if (tag == shm_tag(sequence(), bytes)) [[likely]]
      return cell().digest == digest ? Next::expected : Next::other;
    if (tag >> 32 != sequence()) return Next::none;
    const bool lent = tag == shm_tag(sequence(), bytes | kLent) && cell().digest == digest;
    return lent ? Next::lent : Next::other;
  }
  /// The next message, of `bytes` in a slot, is about to be read: brings the slot of the one behind
  /// it closer meanwhile, if that is there too, and as long. Measured: a stream of 256 bytes to 2
  /// KiB takes 15 to 25 % less time; of longer ones the sender is the limit.
  void foresee(std::size_t bytes) {
    if (bytes > kForeseen || foreseen_ == sequence()) return;
    foreseen_ = sequence();
    ShmReceiver behind = *this;
    behind.advance();
    if (!needs_large_slot(bytes)) behind.small_.advance();
    const std::uint64_t tag = behind.cell().tag.load(std::memory_order_acquire);
    if (tag != shm_tag(behind.sequence(), bytes)) return;
    const std::byte* slot = behind.payload(bytes);
    for (std::size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(slot + at, 0, 2);
  }
  [[nodiscard]] ShmWantedRing& wanted() const { return *fifo_.wanted; }
  void say(const ShmReach& reach) {
    fifo_.consumed->reach.store(reach.word(), std::memory_order_relaxed);
  }
  /// Nothing is read from here on.
  void stop() { fifo_.consumed->stopped.store(1, std::memory_order_release); }
  /// Nothing that was read so far had been withdrawn.
  [[nodiscard]] bool intact() const {
    std::atomic_thread_fence(std::memory_order_acquire);
    return fifo_.lender->withdrawn.load(std::memory_order_relaxed) == 0;
  }
  [[nodiscard]] bool has_next(std::size_t length_word) const {
    return cell().tag.load(std::memory_order_acquire) == shm_tag(sequence(), length_word);
  }
  [[nodiscard]] bool is_lent() const {
    return (cell().tag.load(std::memory_order_relaxed) & kLent) != 0;
  }
  /// The lent message is about to be read where it lies, or copied to where it belongs.
  void begin_to_read() {
    reading_ = true;
    timer_.found(loan().slot.timed);
  }
  /// A message that needs a slot is written to the peer. Says whether one from there that needs a
  /// slot is being read meanwhile, and so passed on.
  [[nodiscard]] bool note_written() { return passed_on_ = reading_; }
  [[nodiscard]] ShmLoan loan() const {
    ShmLoan loan;
    std::memcpy(&loan, cell().payload, sizeof loan);
    return loan;
  }

  // --- of the next message, which is lent: both sides copy it (shm_share.hpp)
  /// Not if what the sender said last might be of this message: its number is short.
  [[nodiscard]] bool may_share() const {
    return ShmParts::of(fifo_.share->copied.load(std::memory_order_relaxed)).message != message();
  }
  /// The sender waits for it.
  [[nodiscard]] bool peer_waits() const {
    const std::uint32_t before = fifo_.share->waits.load(std::memory_order_relaxed);
    return static_cast<std::int32_t>(before - sequence()) > 0;
  }
  /// Lets the sender copy from the back, of all but the first `taken` units. The next piece for
  /// this end.
  [[nodiscard]] ShmPiece share_out(std::byte* into, std::uint32_t taken, std::size_t bytes) const {
    const std::uint32_t next = (share_units(bytes) - taken) / 2;
    fifo_.share->into.store(reinterpret_cast<std::uint64_t>(into), std::memory_order_relaxed);
    fifo_.share->claims.store(ShmParts{message(), taken + next, 0}.word(),
                              std::memory_order_release);
    return piece_of(taken, next, bytes);
  }
  [[nodiscard]] std::optional<ShmPiece> claim(std::size_t bytes) const {
    return claim_piece(*fifo_.share, message(), bytes, true);
  }
  /// The sender is done with all that it has claimed.
  [[nodiscard]] bool peer_has_copied() const {
    const std::uint32_t claimed = claims().back;
    return claimed == 0 || copied().front + copied().back == claimed;
  }
  /// What it could not copy: the last piece that it claimed. Nothing of a peer that has claimed
  /// more than there is, or says nonsense.
  [[nodiscard]] std::optional<ShmPiece> left_by_peer(std::size_t bytes) const {
    const std::uint32_t units = share_units(bytes), claimed = claims().back;
    if (claimed == 0) return ShmPiece{};
    const std::uint32_t failed = copied().front;
    if (claimed > units || failed > claimed) return std::nullopt;
    if (failed == 0) return ShmPiece{};
    return piece_of(units - claimed, failed, bytes);
  }
  /// The sender can claim nothing more.
  void close_share() const {
    fifo_.share->claims.fetch_or(ShmParts{0, ShmParts::kAll, 0}.word(), std::memory_order_acq_rel);
  }
  /// All is copied.
  void end_share() const {
    fifo_.share->claims.store(ShmParts{message(), ShmParts::kAll, 0}.word(),
                              std::memory_order_relaxed);
  }

  /// Length and digest of the next message, which is there.
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::uint32_t>(cell().tag.load(std::memory_order_relaxed)) & ~kLent;
  }
  [[nodiscard]] std::uint64_t digest() const { return cell().digest; }

  /// Where the next message's payload lies. Nothing that the peer wrote leads out of the slots.
  [[nodiscard]] std::byte* payload(std::size_t bytes) {
    if (!needs_slot(bytes)) return cell().payload;
    ShmSlot slot;
    std::memcpy(&slot, cell().payload, sizeof slot);
    reading_ = true;
    timer_.found(slot.timed);
    if (!needs_large_slot(bytes)) return place(fifo_.slots[0], {small_.at(slot.number)});
    const ShmSlots& slots = fifo_.slots[1];
    slot.number = std::min(slot.number, slots.count - 1);
    if (slot.offset > slots.stride - std::min(bytes, slots.stride)) slot.offset = 0;
    return place(slots, slot);
  }
  /// Gives credits back one by one for slots, whose sender may be waiting, and in batches for small
  /// messages: each time costs both sides a line. At most a batch less one is ever kept back.
  void release() {
    const std::size_t length = bytes();
    ++read_;
    advance();
    if (needs_slot(length)) {
      const std::size_t size = fifo_.size_of(length);
      if (size == 0) small_.advance();
      if (timer_.is_on()) [[unlikely]]
        tell_time(length);
      reading_ = passed_on_ = false;
      fifo_.consumed->slots[size].store(++slots_read_[size], std::memory_order_release);
    } else if (read_ % batch_ != 0) {
      return;
    }
    fifo_.consumed->messages.store(read_, std::memory_order_release);
  }

 private:
  [[gnu::noinline]] void tell_time(std::size_t length) {
    timer_.read(length, fifo_.times_of(length, timer_.either_way()), passed_on_);
  }
  [[nodiscard]] std::uint16_t message() const { return static_cast<std::uint16_t>(sequence()); }
  [[nodiscard]] ShmParts claims() const {
    return ShmParts::of(fifo_.share->claims.load(std::memory_order_relaxed));
  }
  [[nodiscard]] ShmParts copied() const { return copied_of(*fifo_.share, message()); }

  static constexpr std::size_t kForeseen = 2048;

  std::uint32_t foreseen_ = 0;  ///< the message before which it was done last
  std::uint32_t read_ = 0;
  std::uint32_t slots_read_[2] = {};
  std::uint32_t batch_ = 1;
  bool reading_ = false, passed_on_ = false;
  ShmForeseenSlot small_;
  ShmReadTimer timer_;
};

}  // namespace coll
