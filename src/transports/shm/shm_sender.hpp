// SPDX-License-Identifier: Apache-2.0
// ShmSender: the end of a FIFO that writes messages.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "sys/clock.hpp"
#include "transports/shm/shm_fifo.hpp"
#include "transports/shm/shm_slot_pool.hpp"
#include "transports/transport.hpp"

namespace coll {

/// Asks for a line as its only owner. Only a hint, also where the instruction is not known.
inline void prefetch_to_write(const std::byte* line) {
#if defined(__x86_64__)
  // The builtin makes it a prefetch for reading unless the build asks for -mprfchw.
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1);
#endif
}

class ShmSender final : ShmCursor {
 public:
  using ShmCursor::needs_large_slot;
  using ShmCursor::position;
  ShmSender() = default;
  explicit ShmSender(const ShmFifo& fifo, std::uint32_t first = 1,
                     std::optional<ShmWay> small = ShmSlotTrial::latest(ShmSlotSize::small),
                     std::optional<ShmWay> large = ShmSlotTrial::latest(ShmSlotSize::large),
                     double ranks_per_core = 1)
      : ShmCursor(fifo, first),
        first_(first),
        cells_(fifo.cell_count),
        small_slots_(std::min(ShmFifo::kFewSmall, fifo.slots[0].credits), fifo.slots[0].credits),
        trials_{ShmSlotTrial(ShmSlotSize::small, small, ranks_per_core),
                ShmSlotTrial(ShmSlotSize::large, large, ranks_per_core)},
        large_slots_(fifo.slots[1].count) {
    place_small();
    place_large();
  }

  /// The place of the next message, or null while all credits are spent.
  std::byte* acquire(std::size_t bytes) {
    const bool slot = needs_slot(bytes);
    if (slot && needs_large_slot(bytes)) return acquire_large(bytes);
    if (cells_ == 0 || (slot && !small_slots_.has_one())) [[unlikely]] {
      refill();
      if (broken_ || cells_ == 0 || (slot && !small_slots_.has_one())) return nullptr;
    }
    if (!slot) return cell().payload;
    note_begin(bytes);
    return place(fifo_.slots[0], {small_slots_.next()});
  }
  /// Like `acquire`, for a message that will be lent: it takes a slot's credit, but no place.
  bool has_slot(std::size_t bytes) {
    return needs_large_slot(bytes) ? reserve_large(bytes, true) : acquire(bytes) != nullptr;
  }
  /// If it is streaming, the next message will probably follow without one coming back before.
  void commit(std::size_t bytes, std::uint64_t digest, ShmWritten how = {}) {
    const bool shared = needs_slot(bytes) && say_slot(bytes, how);
    publish(bytes, shared ? bytes | kLent : bytes, digest, false);
    // Not while messages alternate: the receiver would be watching that line already.
    if (how.streaming && cells_ > 0) own_next_cell(bytes);
    if (needs_slot(bytes) && bytes <= ShmFifo::kAhead && !needs_large_slot(bytes) && cells_ > 0 &&
        small_slots_.has_one())
      own_next_slot(bytes);
  }
  /// Which payloads are better written past the caches.
  [[nodiscard]] LengthRange streamed() const {
    if (!has_small_slots()) return {};
    const auto streams = [&](std::size_t size) { return trials_[size].way() == ShmWay::streamed; };
    return {.least = (streams(0) ? ShmFifo::kAhead : ShmFifo::kSmallBytes) + 1,
            .most = streams(1) ? fifo_.slots[1].stride : ShmFifo::kSmallBytes};
  }
  /// Whether to lend the next message, which may as well go through a slot. `at_first`: the first
  /// ones are, as the memory of slots is new.
  bool lends_either_way(std::size_t bytes, bool at_first) {
    either_way_ = trials_[1].has_settled();
    if (either_way_) return loans_of(bytes).lends();
    return at_first_ = at_first && bytes >= ShmLoanTrial::kMiddle && trials_[1].may_wait();
  }
  /// Where the other direction's trials of loans say what they have found. `leads`: these ones say
  /// what both do.
  void listen_to(const ShmLender& back, bool leads) {
    back_ = &back;
    for (ShmLoanTrial& trial : loans_) trial = ShmLoanTrial(leads);
  }
  /// It goes as its caller says.
  void goes_one_way() { either_way_ = at_first_ = false; }
  /// Sends where the payload lies instead of the payload; after `has_slot`. It counts as one that
  /// needs its slot: the receiver may have to copy it there.
  void lend(ShmLoan loan, std::size_t bytes, std::uint64_t digest) {
    COLL_CHECK(!lands_, "a message that lands is lent");
    loan.slot = needs_large_slot(bytes) ? slot_at(large_slots_.offer_to_fill()) : slot_for(bytes);
    if (either_way_) {
      loan.slot.timed = loans_of(bytes).timed();
      if (loan.slot.timed.trial != 0) loan.slot.timed.begun = static_cast<std::uint32_t>(now_ns());
      count_either_way(bytes);
    } else if (at_first_) {
      trials_[1].wait(bytes);
    }
    say_in(cell(), loan);
    if (bytes >= kSharedBytes) {
      note_long({static_cast<std::uint16_t>(sequence()),
                 reinterpret_cast<const std::byte*>(loan.address), bytes});
      long_ = {.some = true, .end = position() + 1};
    }
    publish(bytes, bytes | kLent, digest, true);
    (loan.of == ShmLoanOf::transport ? kept_ : lent_) = Loans{.some = true, .end = position()};
  }

  // --- landing
  /// Does the receiver say where it wants the next message, of `bytes`?
  [[nodiscard]] bool is_wanted(std::size_t bytes) const {
    return lands_ || (needs_large_slot(bytes) && wanted().is_told(position(), bytes));
  }
  [[nodiscard]] ShmWanted& wanted() const { return fifo_.wanted->at(position()); }
  /// The next message, which has a slot, will be written to where it is wanted. False: it is wanted
  /// there no more.
  bool claim_landing() { return lands_ = lands_ || wanted().claim(position()); }
  /// It is written, or will not be any more.
  void give_up_landing() {
    if (std::exchange(lands_, false)) wanted().end(position());
  }

  /// From now on, its large messages lie in blocks that connections to its peer share.
  void share_blocks(const ShmSlotPool::Membership& of) {
    blocks_ =
        ShmBlocks::join(of.pool, of.owner, large_slots_, *fifo_.consumed, fifo_.slots[1].count);
  }
  /// The connection ends; its segment is kept as long as the peer has to read blocks.
  void end(MemorySegment segment, std::int64_t peer_pid) {
    if (blocks_) blocks_->leave(std::move(segment), peer_pid);
    blocks_.reset();
  }

  // --- help with a lent message that the receiver is copying (shm_share.hpp)
  struct SharedLoan {
    std::uint16_t message = 0;
    const std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::uint64_t into = 0;  ///< in the receiver's process
  };
  /// Is a long loan not read yet?
  [[nodiscard]] bool can_help() { return !is_read(long_); }
  /// Lets the receiver know that this end waits, and could help.
  void say_waits() {
    if (std::exchange(waited_for_, sequence()) == sequence()) return;
    fifo_.share->waits.store(sequence(), std::memory_order_relaxed);
  }
  [[nodiscard]] std::optional<SharedLoan> shared_loan() const {
    const ShmParts claims = ShmParts::of(fifo_.share->claims.load(std::memory_order_acquire));
    if (claims.front == ShmParts::kAll || claims.front == 0) return std::nullopt;
    if (!long_loans_) return std::nullopt;
    SharedLoan loan = (*long_loans_)[claims.message % kLongLoans];
    if (loan.message != claims.message || loan.data == nullptr) return std::nullopt;
    return loan;
  }
  /// The next piece to copy.
  [[nodiscard]] std::optional<ShmPiece> claim(SharedLoan& loan) const {
    const auto piece = claim_piece(*fifo_.share, loan.message, loan.bytes, false);
    // Written before the message was shared: this end's claim has seen that.
    if (piece) loan.into = fifo_.share->into.load(std::memory_order_relaxed);
    return piece;
  }
  void has_copied(const SharedLoan& loan, const ShmPiece& piece, bool copied) const {
    ShmParts parts = copied_of(*fifo_.share, loan.message);
    (copied ? parts.back : parts.front) += piece.units;
    fifo_.share->copied.store(parts.word(), std::memory_order_release);
  }

  [[nodiscard]] bool has_small_slots() const { return fifo_.slots[0].count > 0; }
  /// Behind all that was lent until its call ends. Not behind later messages: the receiver may keep
  /// the credits of small ones back.
  [[nodiscard]] std::uint64_t mark() const { return lent_.end; }
  /// The receiver is done with what was lent before the mark.
  bool returned(std::uint64_t mark) { return is_read(lent_) || is_read(mark); }
  /// The receiver is done with all that was lent or is kept.
  bool caught_up() { return is_read(lent_) && is_read(kept_); }
  /// The receiver reads no more.
  [[nodiscard]] bool has_stopped() const {
    return fifo_.consumed->stopped.load(std::memory_order_acquire) != 0;
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
  [[gnu::noinline]] std::byte* acquire_large(std::size_t bytes) {
    if (!reserve_large(bytes, false)) return nullptr;
    const ShmSlot slot = slot_at(large_slots_.offer(bytes));
    return blocks_ ? blocks_->of(slot.number).data + slot.offset : place(fifo_.slots[1], slot);
  }
  /// False: no large slot is free.
  bool reserve_large(std::size_t bytes, bool lent) {
    if (blocks_ && !blocks_->hold()) return false;
    if (cells_ == 0 || !large_slots_.has_one() || large_slots_.wants_back(lent)) {
      const std::uint32_t returned = fifo_.consumed->slots[1].load(std::memory_order_acquire);
      broken_ = broken_ || !large_slots_.take_back(returned);
      refill();
      if (broken_ || cells_ == 0 || !large_slots_.has_one()) return false;
    }
    note_begin(bytes);
    large_slots_.offer(bytes);
    return true;
  }
  void note_begin(std::size_t bytes) {
    if (is_tried(bytes) && wants_times(bytes)) [[unlikely]]
      acquired_ns_ = now_ns();
  }
  static ShmSlot slot_at(ShmPlace place) { return {place.number(), place.offset()}; }
  /// The slot of the next message, which needs one.
  [[nodiscard]] ShmSlot slot_for(std::size_t bytes) {
    return needs_large_slot(bytes) ? slot_at(large_slots_.offer(bytes))
                                   : ShmSlot{small_slots_.next()};
  }
  /// Whether a message is timed, and so has a say in the way. Shorter ones go to the same slots,
  /// but what they take hardly depends on it.
  [[nodiscard]] bool is_tried(std::size_t bytes) const {
    return bytes > ShmFifo::kAhead && has_small_slots();
  }
  /// Whether it matters how long the message takes to write.
  [[nodiscard]] bool wants_times(std::size_t bytes) {
    return trial_of(bytes).wants_times() ||
           (needs_large_slot(bytes) && loans_of(bytes).wants_times());
  }
  [[nodiscard]] ShmLoanTrial& loans_of(std::size_t bytes) {
    return loans_[ShmLoanTrial::length_of(bytes)];
  }
  [[nodiscard]] ShmSlotTrial& trial_of(std::size_t bytes) { return trials_[fifo_.size_of(bytes)]; }
  /// Says in the cell which slot the message has, and counts it in the trial; the next one may go
  /// another way. Not inlined: that made messages without a slot slower.
  /// True: it lies in a block, or where it is wanted.
  [[gnu::noinline]] bool say_slot(std::size_t bytes, ShmWritten how) {
    if (lands_) [[unlikely]]
      return say_landed();
    ShmSlot slot = slot_for(bytes);
    if (!is_tried(bytes)) return say_place(bytes, slot);
    ShmSlotTrial& trial = trial_of(bytes);
    const std::uint64_t ns = wants_times(bytes) ? now_ns() - acquired_ns_ : 0;
    if (either_way_) {
      slot.timed = loans_of(bytes).timed();
      slot.timed.begun = static_cast<std::uint32_t>(acquired_ns_);
      slot.timed.took = static_cast<std::uint32_t>(ns);
      count_either_way(bytes);
    } else {
      slot.timed = trial.timed(how.passed_on);
    }
    const bool shared = say_place(bytes, slot);
    const ShmWay before = trial.way();
    trial.wrote(bytes, ns, fifo_.consumed->times[fifo_.size_of(bytes)], how);
    if (trial.way() != before) [[unlikely]]
      needs_large_slot(bytes) ? place_large() : place_small();
    return shared;
  }
  bool say_landed() {
    say_in(
        cell(),
        ShmLoan{.slot = {}, .of = ShmLoanOf::receiver, .address = 0, .removals = 0, .place = {}});
    give_up_landing();
    either_way_ = false;
    return true;
  }
  /// A block is said as if its bytes were lent, from memory that is kept.
  bool say_place(std::size_t bytes, const ShmSlot& slot) {
    if (!blocks_ || !needs_large_slot(bytes)) {
      say_in(cell(), slot);
      return false;
    }
    const ShmBlock& block = blocks_->of(slot.number);
    ShmLoan loan{.slot = slot,
                 .of = ShmLoanOf::transport,
                 .address = 0,
                 .removals = 0,
                 .place = block.place};
    loan.address = reinterpret_cast<std::uint64_t>(block.data) + slot.offset;
    loan.place.offset += slot.offset;
    say_in(cell(), loan);
    // Nobody helps to copy it.
    if (bytes >= kSharedBytes) note_long({});
    return true;
  }
  /// What the next message is, for `shared_loan`. Nobody helps where there is no memory for it.
  void note_long(const SharedLoan& loan) {
    if (!long_loans_) long_loans_.reset(new (std::nothrow) std::array<SharedLoan, kLongLoans>{});
    if (long_loans_) (*long_loans_)[sequence() % kLongLoans] = loan;
  }
  void count_either_way(std::size_t bytes) {
    either_way_ = false;
    const std::size_t trial = ShmLoanTrial::length_of(bytes);
    loans_[trial].sent(bytes, fifo_.times_of(bytes, true), fifo_.lender->loans[trial],
                       back_->loans[trial]);
  }
  void place_small() {
    if (trials_[0].way() != ShmWay::spread) return small_slots_.spread(0);
    const auto all = static_cast<std::uint32_t>(trials_[0].spreads_over() / ShmFifo::kSmallStride);
    small_slots_.spread(std::min(all, fifo_.slots[0].count));
  }
  void place_large() {
    if (trials_[1].way() != ShmWay::spread || !has_small_slots()) return large_slots_.spread(0);
    const ShmSlots& slots = fifo_.slots[1];
    large_slots_.spread(std::min(slots.stride, trials_[1].spreads_over() / slots.count));
  }
  /// `filled`: the receiver may have to copy it to its slot.
  void publish(std::size_t bytes, std::size_t length_word, std::uint64_t digest, bool filled) {
    cell().digest = digest;
    cell().tag.store(shm_tag(sequence(), length_word), std::memory_order_release);
    --cells_;
    if (needs_large_slot(bytes)) {
      large_slots_.send(bytes, filled);
      if (blocks_) blocks_->release();
    } else if (needs_slot(bytes)) {
      small_slots_.send();
    }
    advance();
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
    const std::byte* slot = place(fifo_.slots[0], {small_slots_.next()});
    for (std::size_t at = 0; at < bytes; at += kCacheLine) prefetch_to_write(slot + at);
  }
  [[gnu::noinline]] void refill() {
    // Acquire: the receiver's reads of what it gives back came before its counts.
    const ShmConsumed& consumed = *fifo_.consumed;
    const std::uint32_t read = consumed.messages.load(std::memory_order_acquire);
    const std::uint32_t in_flight = sequence() - first_ - read;
    broken_ = broken_ || in_flight > fifo_.cell_count ||
              !small_slots_.take_back(consumed.slots[0].load(std::memory_order_acquire));
    if (!broken_) cells_ = fifo_.cell_count - in_flight;
  }

  static constexpr std::uint32_t kLongLoans = 64;  ///< that are known, of the latest

  // What each message needs comes first.
  std::uint32_t first_ = 0;
  std::uint32_t cells_ = 0;  ///< free
  ShmSlotRing small_slots_;
  bool lands_ = false;       ///< the next message is written to where it is wanted
  bool either_way_ = false;  ///< the next message may be lent, or go through a slot
  bool at_first_ = false;    ///< it is lent, as the first ones are
  bool broken_ = false;
  std::uint64_t acquired_ns_ = 0;
  Loans lent_, kept_, long_;
  std::uint32_t waited_for_ = 0;
  const ShmLender* back_ = nullptr;
  ShmSlotTrial trials_[kShmSlotSizes] = {ShmSlotTrial(ShmSlotSize::small),
                                         ShmSlotTrial(ShmSlotSize::large)};
  ShmSlotDeck large_slots_;
  std::unique_ptr<ShmBlocks> blocks_;    ///< in place of large slots; null: it has none
  ShmLoanTrial loans_[kShmLoanLengths];  ///< of messages that may be lent
  std::unique_ptr<std::array<SharedLoan, kLongLoans>> long_loans_;  ///< null: there were none
};

}  // namespace coll
