// SPDX-License-Identifier: Apache-2.0
// The FIFO of one direction: cells and slots in shared memory.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transports/shm/shm_cell.hpp"
#include "transports/shm/shm_landing.hpp"
#include "transports/shm/shm_line.hpp"
#include "transports/shm/shm_loan_trial.hpp"
#include "transports/shm/shm_reach.hpp"
#include "transports/shm/shm_read_times.hpp"
#include "transports/shm/shm_share.hpp"
#include "transports/shm/shm_slot_deck.hpp"
#include "transports/shm/shm_slot_trial.hpp"

namespace coll {

// The cost of a message is the number of cache lines that move between two cores, one after the
// other. So:
//  - a pair of lines, the cell, says that a message is there, how long, of which call, and holds
//    the payload itself up to 112 bytes: one of up to 48 bytes moves exactly one line;
//  - longer payloads lie in a slot, written before the cell;
//  - cells and small slots are rings: small messages should run far ahead, for every time the
//    sender has to wait costs, a change of processes where ranks share a core;
//  - of the large slots the one goes first that came back last, so that no more of them than are
//    under way at once take room in the caches, or memory at all;
//  - the cell says which slot it is. Where it takes long to write what another core holds, slots
//    are written in another way (shm_slot_trial.hpp);
//  - nobody reads what the other side writes except when it must: the receiver watches the next
//    cell, the sender looks at the receiver's counts only when its credits are spent, or some large
//    slots are under way;
//  - what only one side needs is not in the segment at all;
//  - a payload whose memory stays as it is may be lent: the cell says where it lies in the sender's
//    process, and the receiver, where it can reach that memory, copies it once instead of twice;
//  - a sender that waits for a long one to be read copies a part of it (shm_share.hpp);
//  - a long one that its sender computes is written to where the receiver wants it, if that is in
//    memory which the sender can map (shm_landing.hpp).

/// Written by the receiver only.
struct alignas(kLinePair) ShmConsumed {
  std::atomic<std::uint32_t> messages;  ///< ever read
  std::atomic<std::uint32_t> slots[2];  ///< ever read, by size: those of the messages that had one
  std::atomic<std::uint32_t> reach;     ///< a ShmReach
  std::atomic<std::uint32_t> stopped;   ///< nothing will be read any more
  // Of reading messages, where the sender asks.
  ShmReadTimes times[kShmSlotSizes];         ///< those in slots
  ShmReadTimes loan_times[kShmLoanLengths];  ///< those that may be lent
};

/// Written by the sender only.
struct alignas(kLinePair) ShmLender {
  std::atomic<std::uint32_t> withdrawn;  ///< what was lent, and not kept, is no more what it was
  ShmLoanWords loans[kShmLoanLengths];   ///< of messages that may be lent
};

/// Slots of one size.
struct ShmSlots {
  std::byte* begin = nullptr;
  std::size_t stride = 0;
  std::uint32_t count = 0;
  std::uint32_t credits = 0;  ///< how many may be under way

  [[nodiscard]] std::size_t bytes() const { return stride * count; }
};

/// One direction's place in the segment: the count, the cells, and elsewhere the slots.
struct ShmFifo {
  ShmConsumed* consumed = nullptr;
  ShmLender* lender = nullptr;
  ShmShare* share = nullptr;
  ShmWantedRing* wanted = nullptr;
  ShmCell* cells = nullptr;
  std::uint32_t cell_count = 0;
  ShmSlots slots[2];  ///< small ones, if large ones are larger; large ones, the spec's credits

  /// Longer messages do not go into small slots. An odd number of pairs, so that slots spread over
  /// a cache.
  static constexpr std::size_t kSmallBytes = 4096, kSmallStride = kSmallBytes + 5 * kLinePair;
  static_assert(kSmallStride >= kSmallBytes + kPrefetchedBytes);
  static constexpr std::uint32_t kSmallCredits = 64;
  static_assert(kSmallCredits * kSmallStride <= ShmSlotTrial::few_bytes());
  /// A connection begins with so many, which saves memory: a collective of many ranks uses many
  /// connections, but has few messages under way on each.
  static constexpr std::uint32_t kFewSmall = 32;
  /// Of messages up to this length the sender asks for the lines of the next slot early. Longer
  /// ones are written in whichever way takes the least time.
  static constexpr std::size_t kAhead = 2048;
  static constexpr std::uint32_t kSmallSlots = ShmSlotTrial::most_spread_bytes() / kSmallStride;

  /// Which slots a message of `bytes` goes into, if it needs one.
  [[nodiscard]] std::size_t size_of(std::size_t bytes) const {
    return bytes > kSmallBytes || slots[0].count == 0 ? 1 : 0;
  }
  /// Where the receiver says how long a message took. `either_way`: it may be lent, or go through a
  /// slot.
  [[nodiscard]] ShmReadTimes& times_of(std::size_t bytes, bool either_way) const {
    return either_way ? consumed->loan_times[ShmLoanTrial::length_of(bytes)]
                      : consumed->times[size_of(bytes)];
  }
  /// Bytes of counts and cells, a multiple of kLinePair.
  static constexpr std::size_t control_bytes(std::uint32_t cells) {
    return sizeof(ShmConsumed) + sizeof(ShmLender) + sizeof(ShmShare) + sizeof(ShmWantedRing) +
           cells * sizeof(ShmCell);
  }
};

/// The cell that comes next, and the number of the message.
class ShmCursor {
 public:
  ShmCursor() = default;
  ShmCursor(const ShmFifo& fifo, std::uint32_t first)
      : fifo_(fifo), cell_(fifo.cells), sequence_(first) {}

  [[nodiscard]] ShmCell& cell() const { return *cell_; }
  [[nodiscard]] std::uint32_t sequence() const { return static_cast<std::uint32_t>(sequence_); }
  /// The sequence, but it never wraps.
  [[nodiscard]] std::uint64_t position() const { return sequence_; }
  [[nodiscard]] bool needs_large_slot(std::size_t bytes) const {
    return needs_slot(bytes) && fifo_.size_of(bytes) == 1;
  }
  [[nodiscard]] static std::byte* place(const ShmSlots& slots, ShmSlot slot) {
    return slots.begin + slot.number * slots.stride + slot.offset;
  }
  /// Past a message.
  void advance() {
    ++sequence_;
    if (++cell_ == fifo_.cells + fifo_.cell_count) cell_ = fifo_.cells;
  }

 protected:
  ShmFifo fifo_;

 private:
  ShmCell* cell_ = nullptr;
  std::uint64_t sequence_ = 0;
};

}  // namespace coll
