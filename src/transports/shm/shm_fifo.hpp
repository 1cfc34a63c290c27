// SPDX-License-Identifier: Apache-2.0
// The FIFO of one direction: cells and slots in shared memory.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transports/shm/shm_reach.hpp"
#include "transports/shm/shm_slot_deck.hpp"

namespace coll {

// The cost of a message is the number of cache lines that move between two cores, one after the
// other. So:
//  - a pair of lines, the cell, says that a message is there, how long, of which call, and holds
//    the payload itself up to 112 bytes: one of up to 48 bytes moves exactly one line;
//  - longer payloads lie in a slot, written before the cell;
//  - cells and small slots are rings: small messages should run far ahead, for every time the
//    sender has to wait costs, a change of processes where ranks share a core;
//  - of the large slots the one goes first that came back last, so that no more of them than are
//    under way at once take room in the caches, or memory at all; the cell says which one it is;
//  - nobody reads what the other side writes except when it must: the receiver watches the next
//    cell, the sender looks at the receiver's counts only when its credits are spent, or some large
//    slots are under way;
//  - what only one side needs is not in the segment at all;
//  - a payload whose memory stays as it is may be lent: the cell says where it lies in the sender's
//    process, and the receiver, where it can reach that memory, copies it once instead of twice.

inline constexpr std::size_t kCacheLine = 64;
/// Processors fetch lines in pairs, so what two sides write stands at least this far apart.
inline constexpr std::size_t kLinePair = 128;
inline constexpr std::size_t kInlineBytes = 112;

/// "Message `sequence`, of `bytes` bytes, is in this cell"; zeroed memory says nothing, as the
/// first sequence is 1. Comparing equal is all that is ever done, so sequences may wrap.
constexpr std::uint64_t shm_tag(std::uint32_t sequence, std::size_t bytes) {
  return std::uint64_t{sequence} << 32 | bytes;
}

struct alignas(kLinePair) ShmCell {
  std::atomic<std::uint64_t> tag;  ///< written last, with release
  std::uint64_t digest;
  std::byte payload[kInlineBytes];
};
static_assert(sizeof(ShmCell) == kLinePair);
/// How much of a payload lies in the line of the tag.
inline constexpr std::size_t kFirstLineBytes = kCacheLine - offsetof(ShmCell, payload);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Written by the receiver only.
struct alignas(kLinePair) ShmConsumed {
  std::atomic<std::uint32_t> messages;  ///< ever read
  std::atomic<std::uint32_t> slots[2];  ///< ever read, by size: those of the messages that had one
  std::atomic<std::uint32_t> reach;     ///< a ShmReach
  std::atomic<std::uint32_t> stopped;   ///< nothing will be read any more
};

/// Written by the sender only.
struct alignas(kLinePair) ShmLender {
  std::atomic<std::uint32_t> withdrawn;  ///< what was lent, and not kept, is no more what it was
};

/// What a cell holds in place of a lent payload.
struct ShmLoan {
  ShmSlot slot;
  std::uint32_t kept = 0;      ///< 1: its memory outlives the call, and is never withdrawn
  std::uint64_t address = 0;   ///< in the sender's process
  std::uint64_t removals = 0;  ///< of segments of its process, until now
  SharedPlace place;           ///< in these; nowhere: only at the address
};
static_assert(sizeof(ShmLoan) <= kInlineBytes && offsetof(ShmLoan, slot) == 0);
/// Beside the length in a tag: the payload is lent. No message is longer than 1 GiB.
inline constexpr std::size_t kLent = std::size_t{1} << 31;

/// Slots of one size.
struct ShmSlots {
  std::byte* begin = nullptr;
  std::size_t stride = 0;
  std::uint32_t count = 0;

  [[nodiscard]] std::size_t bytes() const { return stride * count; }
};

/// One direction's place in the segment: the count, the cells, and elsewhere the slots.
struct ShmFifo {
  ShmConsumed* consumed = nullptr;
  ShmLender* lender = nullptr;
  ShmCell* cells = nullptr;
  ShmSlots slots[2];  ///< small ones, if large ones are larger; large ones, the spec's credits

  /// Longer messages do not go into small slots. Small slots lie a little further apart than their
  /// size, so that they spread over a cache.
  static constexpr std::size_t kSmallBytes = 4096, kSmallStride = kSmallBytes + kLinePair;
  static constexpr std::uint32_t kSmallSlots = 32;

  /// Which slots a message of `bytes` goes into, if it needs one.
  [[nodiscard]] std::size_t size_of(std::size_t bytes) const {
    return bytes > kSmallBytes || slots[0].count == 0 ? 1 : 0;
  }
  /// The cells of a direction with `credits` large slots.
  static constexpr std::uint32_t cells_for(std::uint32_t credits) {
    return std::max(credits, std::uint32_t{64});
  }
  [[nodiscard]] std::uint32_t cell_count() const { return cells_for(slots[1].count); }
  /// Bytes of counts and cells, a multiple of kLinePair.
  static constexpr std::size_t control_bytes(std::uint32_t credits) {
    return sizeof(ShmConsumed) + sizeof(ShmLender) + cells_for(credits) * sizeof(ShmCell);
  }
};

/// Asks for a line as its only owner. Only a hint, also where the instruction is not known.
inline void prefetch_to_write(const std::byte* line) {
#if defined(__x86_64__)
  // The builtin makes it a prefetch for reading unless the build asks for -mprfchw.
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1);
#endif
}

constexpr bool needs_slot(std::size_t bytes) {
  return bytes > kInlineBytes;
}

/// The cell and the small slot that come next, and the number of the message.
class ShmCursor {
 public:
  ShmCursor() = default;
  ShmCursor(const ShmFifo& fifo, std::uint32_t first)
      : fifo_(fifo), cell_(fifo.cells), small_slot_(fifo.slots[0].begin), sequence_(first) {}

  [[nodiscard]] ShmCell& cell() const { return *cell_; }
  [[nodiscard]] std::uint32_t sequence() const { return static_cast<std::uint32_t>(sequence_); }
  /// The sequence, but it never wraps.
  [[nodiscard]] std::uint64_t position() const { return sequence_; }
  [[nodiscard]] bool needs_large_slot(std::size_t bytes) const {
    return needs_slot(bytes) && fifo_.size_of(bytes) == 1;
  }
  /// Where the payload of a message lies that does not need a large slot.
  [[nodiscard]] std::byte* small_payload(std::size_t bytes) const {
    return needs_slot(bytes) ? small_slot_ : cell_->payload;
  }
  [[nodiscard]] std::byte* large_slot(ShmSlot slot) const {
    return fifo_.slots[1].begin + slot.number * fifo_.slots[1].stride;
  }
  /// Past a message of `bytes`.
  void advance(std::size_t bytes) {
    ++sequence_;
    if (++cell_ == fifo_.cells + fifo_.cell_count()) cell_ = fifo_.cells;
    if (!needs_slot(bytes) || needs_large_slot(bytes)) return;
    const ShmSlots& slots = fifo_.slots[0];
    small_slot_ += slots.stride;
    if (small_slot_ == slots.begin + slots.bytes()) small_slot_ = slots.begin;
  }

 protected:
  ShmFifo fifo_;

 private:
  ShmCell* cell_ = nullptr;
  std::byte* small_slot_ = nullptr;
  std::uint64_t sequence_ = 0;
};

class ShmSender final : ShmCursor {
 public:
  ShmSender() = default;
  explicit ShmSender(const ShmFifo& fifo, std::uint32_t first = 1)
      : ShmCursor(fifo, first),
        first_(first),
        cells_(fifo.cell_count()),
        small_slots_(fifo.slots[0].count),
        large_slots_(fifo.slots[1].count) {}

  /// The place of the next message, or null while all credits are spent.
  std::byte* acquire(std::size_t bytes) {
    const bool large = needs_large_slot(bytes);
    if (!has_credit(bytes) || (large && large_slots_.wants_back())) [[unlikely]] {
      refill();
      if (broken_ || !has_credit(bytes)) return nullptr;
    }
    return large ? large_slot(large_slots_.offer()) : small_payload(bytes);
  }
  /// `streaming`: the next message will probably follow without one coming back before.
  void commit(std::size_t bytes, std::uint64_t digest, bool streaming = false) {
    if (needs_large_slot(bytes)) write(large_slots_.next());
    publish(bytes, bytes, digest);
    // Not while messages alternate: the receiver would be watching that line already.
    if (streaming && cells_ > 0) own_next_cell(bytes);
    if (needs_slot(bytes) && bytes <= kAhead && has_credit(bytes)) own_next_slot(bytes);
  }
  /// Sends where the payload lies instead of the payload; after `acquire`. It counts as one that
  /// needs its slot: the receiver may have to copy it there.
  void lend(ShmLoan loan, std::size_t bytes, std::uint64_t digest) {
    if (needs_large_slot(bytes)) loan.slot = large_slots_.next();
    write(loan);
    publish(bytes, bytes | kLent, digest);
    (loan.kept != 0 ? kept_ : lent_) = Loans{.some = true, .end = position()};
  }
  [[nodiscard]] bool has_small_slots() const { return fifo_.slots[0].count > 0; }
  /// Behind all that was lent until its call ends. Not behind later messages: the receiver may keep
  /// the credits of small ones back.
  [[nodiscard]] std::uint64_t mark() const { return lent_.end; }
  /// The receiver is done with what was lent before the mark.
  bool returned(std::uint64_t mark) { return is_read(lent_) || is_read(mark); }
  /// And with what is kept; or it is there no more.
  bool all_read() {
    return (is_read(lent_) && is_read(kept_)) ||
           fifo_.consumed->stopped.load(std::memory_order_acquire) != 0;
  }
  /// Before what is outstanding changes. Readers look after they have read.
  void withdraw() {
    if (is_read(lent_)) return;
    fifo_.lender->withdrawn.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  [[nodiscard]] ShmReach reach() const {
    return ShmReach::of(fifo_.consumed->reach.load(std::memory_order_relaxed));
  }
  /// The receiver claims to have read what was never sent.
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  struct Loans {
    bool some = false;      ///< are perhaps not read yet
    std::uint64_t end = 0;  ///< the position behind the last one
  };

  bool is_read(Loans& loans) const {
    loans.some = loans.some && !is_read(loans.end);
    return !loans.some;
  }
  [[nodiscard]] bool is_read(std::uint64_t mark) const {
    const std::uint32_t read = fifo_.consumed->messages.load(std::memory_order_acquire);
    const std::uint32_t in_flight = sequence() - first_ - read;
    return mark + in_flight <= position();
  }
  [[nodiscard]] bool has_credit(std::size_t bytes) const {
    if (!needs_slot(bytes)) return cells_ > 0;
    return cells_ > 0 && (needs_large_slot(bytes) ? large_slots_.has_one() : small_slots_ > 0);
  }
  [[nodiscard]] std::byte* payload(std::size_t bytes) const {
    return needs_large_slot(bytes) ? large_slot(large_slots_.next()) : small_payload(bytes);
  }
  template <class Note>
  void write(const Note& note) const {
    std::memcpy(cell().payload, &note, sizeof note);
  }
  void publish(std::size_t bytes, std::size_t length_word, std::uint64_t digest) {
    cell().digest = digest;
    cell().tag.store(shm_tag(sequence(), length_word), std::memory_order_release);
    --cells_;
    if (needs_large_slot(bytes)) {
      large_slots_.send();
    } else if (needs_slot(bytes)) {
      --small_slots_;
      ++small_slots_sent_;
    }
    advance(bytes);
  }
  /// Takes the lines of the next cell back from the receiver, which is done with them, before they
  /// are asked for, if the next message is like this one. Measured: a stream of 64 bytes takes
  /// 0.075 us a message, and 0.15 us if only its first line is taken.
  void own_next_cell(std::size_t bytes) const {
    const auto* lines = reinterpret_cast<const std::byte*>(&cell());
    prefetch_to_write(lines);
    if (bytes > kFirstLineBytes) prefetch_to_write(lines + kCacheLine);
  }
  /// The same of the next slot: 10 % less latency at 1 KiB. Not beyond 2 KiB, from where on the C
  /// library copies by `rep movsb`, which some processors do without asking for lines: to have
  /// asked then took twice as long at 4 KiB on one, on another a sixth less.
  void own_next_slot(std::size_t bytes) const {
    const std::byte* slot = payload(bytes);
    for (std::size_t at = 0; at < bytes; at += kCacheLine) prefetch_to_write(slot + at);
  }
  void refill() {
    // Acquire: the receiver's reads of what it gives back came before its counts.
    const ShmConsumed& consumed = *fifo_.consumed;
    const std::uint32_t read = consumed.messages.load(std::memory_order_acquire);
    const std::uint32_t in_flight = sequence() - first_ - read;
    const std::uint32_t small_in_flight =
        small_slots_sent_ - consumed.slots[0].load(std::memory_order_acquire);
    broken_ = broken_ || in_flight > fifo_.cell_count() || small_in_flight > fifo_.slots[0].count ||
              !large_slots_.take_back(consumed.slots[1].load(std::memory_order_acquire));
    if (broken_) return;
    cells_ = fifo_.cell_count() - in_flight;
    small_slots_ = fifo_.slots[0].count - small_in_flight;
  }

  static constexpr std::size_t kAhead = 2048;

  std::uint32_t first_ = 0;
  std::uint32_t cells_ = 0, small_slots_ = 0;  ///< free
  std::uint32_t small_slots_sent_ = 0;
  ShmSlotDeck large_slots_;
  Loans lent_, kept_;
  bool broken_ = false;
};

class ShmReceiver final : ShmCursor {
 public:
  enum class Next : std::uint8_t { none, expected, lent, other };

  ShmReceiver() = default;
  explicit ShmReceiver(const ShmFifo& fifo, std::uint32_t first = 1)
      : ShmCursor(fifo, first), batch_(fifo.cell_count() / 4) {}

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
    behind.advance(bytes);
    const std::uint64_t tag = behind.cell().tag.load(std::memory_order_acquire);
    if (tag != shm_tag(behind.sequence(), bytes)) return;
    const std::byte* slot = behind.payload(bytes);
    for (std::size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(slot + at, 0, 2);
  }
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
  [[nodiscard]] bool is_lent() const {
    return (cell().tag.load(std::memory_order_relaxed) & kLent) != 0;
  }
  [[nodiscard]] ShmLoan loan() const {
    ShmLoan loan;
    std::memcpy(&loan, cell().payload, sizeof loan);
    return loan;
  }
  /// Length and digest of the next message, which is there.
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::uint32_t>(cell().tag.load(std::memory_order_relaxed)) & ~kLent;
  }
  [[nodiscard]] std::uint64_t digest() const { return cell().digest; }

  /// Where the next message's payload lies. Nothing that the peer wrote leads out of the slots.
  [[nodiscard]] std::byte* payload(std::size_t bytes) const {
    if (!needs_large_slot(bytes)) return small_payload(bytes);
    ShmSlot slot;
    std::memcpy(&slot, cell().payload, sizeof slot);
    slot.number = std::min(slot.number, fifo_.slots[1].count - 1);
    return large_slot(slot);
  }
  /// Gives credits back one by one for slots, whose sender may be waiting, and in batches for small
  /// messages: each time costs both sides a line. At most a batch less one is ever kept back.
  void release() {
    const std::size_t length = bytes();
    ++read_;
    advance(length);
    if (needs_slot(length)) {
      const std::size_t size = fifo_.size_of(length);
      fifo_.consumed->slots[size].store(++slots_read_[size], std::memory_order_release);
    } else if (read_ % batch_ != 0) {
      return;
    }
    fifo_.consumed->messages.store(read_, std::memory_order_release);
  }

 private:
  static constexpr std::size_t kForeseen = 2048;

  std::uint32_t foreseen_ = 0;  ///< the message before which it was done last
  std::uint32_t read_ = 0;
  std::uint32_t slots_read_[2] = {};
  std::uint32_t batch_ = 1;
};

}  // namespace coll
