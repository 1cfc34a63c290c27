// SPDX-License-Identifier: Apache-2.0
// A cell: the pair of lines that announces a message, and what it holds in place of a long payload.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "sys/memory/shared_segments.hpp"
#include "transports/shm/shm_line.hpp"
#include "transports/shm/shm_read_times.hpp"

namespace coll {

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

constexpr bool needs_slot(std::size_t bytes) {
  return bytes > kInlineBytes;
}

/// What the cell of a message holds that has a slot: which one, and where in it.
struct ShmSlot {
  std::uint32_t number = 0;
  std::uint32_t offset = 0;  ///< bytes
  ShmTimed timed{};
};

/// Whose memory a loan is.
enum class ShmLoanOf : std::uint32_t {
  call,       ///< the call's: may be withdrawn
  transport,  ///< outlives the call
  receiver,   ///< the receiver's own: it was written to where it is wanted
};

/// What a cell holds in place of a lent payload.
struct ShmLoan {
  ShmSlot slot;
  ShmLoanOf of = ShmLoanOf::call;
  std::uint64_t address = 0;   ///< in the sender's process
  std::uint64_t removals = 0;  ///< of segments of its process, until now
  SharedPlace place;           ///< in these; nowhere: only at the address
};
static_assert(sizeof(ShmLoan) <= kInlineBytes && offsetof(ShmLoan, slot) == 0);
/// Beside the length in a tag: the payload is lent. No message is longer than 1 GiB.
inline constexpr std::size_t kLent = std::size_t{1} << 31;

/// Writes a field by a store of its own, of a value that is in a register. A compiler would copy a
/// struct from the stack in loads that are wider than the stores that had made it there. No store
/// can be forwarded to such a load, so it waits until all stores before have left the core, and
/// those are the payload's (docs/performance.md).
template <class Value>
requires(std::is_scalar_v<Value>) void store_alone(Value& field, Value value) {
  std::atomic_ref(field).store(value, std::memory_order_relaxed);
}
inline void say(ShmSlot& there, const ShmSlot& slot) {
  store_alone(there.number, slot.number);
  store_alone(there.offset, slot.offset);
  store_alone(there.timed.trial, slot.timed.trial);
  store_alone(there.timed.way, slot.timed.way);
  store_alone(there.timed.begun, slot.timed.begun);
  store_alone(there.timed.took, slot.timed.took);
}
inline void say(ShmLoan& there, const ShmLoan& loan) {
  say(there.slot, loan.slot);
  store_alone(there.of, loan.of);
  store_alone(there.address, loan.address);
  store_alone(there.removals, loan.removals);
  store_alone(there.place.segment, loan.place.segment);
  store_alone(there.place.descriptor, loan.place.descriptor);
  store_alone(there.place.inode, loan.place.inode);
  store_alone(there.place.offset, loan.place.offset);
}
/// Says in the cell where the payload lies: in a slot, or where it is lent.
template <class Where>
void say_in(ShmCell& cell, const Where& where) {
  say(*reinterpret_cast<Where*>(cell.payload), where);
}

}  // namespace coll
