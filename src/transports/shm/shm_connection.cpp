// SPDX-License-Identifier: Apache-2.0
// A connection's begin and end; what runs per message is in the header.
#include "transports/shm/shm_connection.hpp"

#include <algorithm>
#include <optional>

#include "transports/shm/shm_transport.hpp"

namespace coll {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

std::uint32_t ShmLayout::small_slots() const {
  return slot_bytes > ShmFifo::kSmallBytes ? ShmFifo::kSmallSlots : 0;
}

std::size_t ShmLayout::slots_bytes() const {
  return small_slots() * ShmFifo::kSmallStride + credits * slot_bytes;
}

std::size_t ShmLayout::segment_bytes() const {
  return round_up(round_up(2 * ShmFifo::control_bytes(credits), kPage) + 2 * slots_bytes(), kPage);
}

ShmFifo ShmLayout::fifo(std::byte* segment, int direction) const {
  const auto index = static_cast<std::size_t>(direction);
  const std::size_t control = ShmFifo::control_bytes(credits);
  std::byte* consumed = segment + index * control;
  std::byte* slots = segment + round_up(2 * control, kPage) + index * slots_bytes();
  const ShmSlots small{slots, ShmFifo::kSmallStride, small_slots(),
                       std::min(small_slots(), ShmFifo::kSmallCredits)};
  return {.consumed = reinterpret_cast<ShmConsumed*>(consumed),
          .lender = reinterpret_cast<ShmLender*>(consumed + sizeof(ShmConsumed)),
          .cells = reinterpret_cast<ShmCell*>(consumed + sizeof(ShmConsumed) + sizeof(ShmLender)),
          .slots = {small, {slots + small.bytes(), slot_bytes, credits, credits}}};
}

ShmConnection::~ShmConnection() {
  if (transport_ != nullptr) transport_->forget(this);
  ShmConnection::stop_reading();
}

void ShmConnection::start(MemorySegment segment, const ShmLayout& layout, bool dialled,
                          const MemoryProof& peer, PeerSegments* segments) {
  segment_ = std::move(segment);
  sender_ = ShmSender(layout.fifo(segment_.data(), dialled ? 0 : 1),
                      crowded_ ? ShmWays::without_spread : ShmWays::all);
  set_least_streamed(sender_.least_streamed());
  receiver_ = ShmReceiver(layout.fifo(segment_.data(), dialled ? 1 : 0));
  if (sender_.has_small_slots()) set_least_kept(ShmFifo::kSmallBytes + 1);
  reach_.said = true;
  reach_.copies = can_read_memory_of(peer);
  reach_.maps = segments != nullptr;
  reach_.opens = segments != nullptr && segments->opens();
  peer_pid_ = peer.pid;
  peer_segments_ = segments;
  receiver_.say(reach_);
  transport_ = nullptr;
  set_buffer_bytes(layout.segment_bytes());
  ready_ = usable_ = true;
}

void ShmConnection::give_up(const Status& failure) {
  fail(failure);
  transport_ = nullptr;
}

void ShmConnection::fail_credits() {
  fail(failed(Code::peer_lost, "rank " + std::to_string(peer()) + " returned credits it never had",
              "its process has overwritten the shared memory of this connection"));
  usable_ = false;
}

void ShmConnection::fail_message(std::size_t bytes, std::uint64_t digest) {
  fail(message_mismatch(peer(), bytes, digest, receiver_.bytes(), receiver_.digest()));
  usable_ = false;
}

/// Asks how the peer can reach this process's memory: it says so a little after it has connected.
void ShmConnection::learn_reach() {
  peer_reach_ = sender_.reach();
  if (peer_reach_.copies) set_least_loan(kCopyingBytes);
  if (peer_reach_.maps) set_least_loan(kReadingBytes);
}

bool ShmConnection::lends(const std::byte* data, std::size_t bytes, bool fetch) const {
  if (peer_reach_.maps) {
    const auto place = SharedSegments::find(data, bytes);
    if (place && peer_reach_.in_place(*place)) return true;
  }
  return peer_reach_.copies && fetch && bytes >= kCopyingBytes;
}

bool ShmConnection::lend(const std::byte* data, std::size_t bytes, std::uint64_t digest,
                         bool kept) {
  COLL_CHECK(needs_slot(bytes), "a message is lent that is too short to take a slot's credit");
  if (acquire(bytes) == nullptr) return false;
  ShmLoan loan{.slot = {},
               .kept = kept ? 1U : 0U,
               .address = reinterpret_cast<std::uint64_t>(data),
               .removals = SharedSegments::removals(),
               .place = SharedSegments::find(data, bytes).value_or(SharedPlace{})};
  if (!peer_reach_.in_place(loan.place)) loan.place = {};
  sender_.lend(loan, bytes, digest);
  return true;
}

bool ShmConnection::all_read() {
  if (!ready_ || sender_.all_read()) return true;
  // A process id is worth asking about only if it was proved to be the peer's.
  std::byte nothing{};
  return reach_.copies && read_peer_memory(peer_pid_, 0, &nothing, 1).code() == Code::peer_lost;
}

/// Where this process can read the lent payload in place. Null if the loan names no segment, and a
/// failure if it names one that cannot be mapped.
Result<const std::byte*> ShmConnection::in_place(std::size_t bytes) {
  const ShmLoan loan = receiver_.loan();
  if (peer_segments_ == nullptr) return nullptr;
  peer_segments_->release_removed(loan.removals);
  if (loan.place.segment == 0) return nullptr;
  return peer_segments_->at(loan.place, bytes);
}

/// The lent payload: in place, or else fetched into the slot that its sender left unused.
const std::byte* ShmConnection::borrow(std::size_t bytes) {
  if (!fetched_) {
    if (const auto place = in_place(bytes); place.ok() && *place != nullptr) [[likely]]
      return *place;
    fetched_ = fetch(receiver_.payload(bytes), bytes);
  }
  return fetched_ ? receiver_.payload(bytes) : nullptr;
}

/// Copies the lent payload to `into`: from where it lies in place, or else by fetching it.
bool ShmConnection::take(std::byte* into, std::size_t bytes) {
  const auto place = in_place(bytes);
  if (!place.ok() || *place == nullptr) return fetch(into, bytes);
  copy_bytes(into, *place, bytes);
  return intact();
}

/// Copies the lent payload out of the sender's process. Also the fallback for a segment that cannot
/// be mapped.
bool ShmConnection::fetch(std::byte* into, std::size_t bytes) {
  const Status read = read_peer_memory(peer_pid_, receiver_.loan().address, into, bytes);
  // Withdrawn memory may be unmapped: that failure is not the story.
  if (!intact()) return false;
  if (read.ok()) return true;
  // Where fetching never worked, say why reading in place failed.
  const Status why =
      reach_.copies || read.code() == Code::peer_lost ? Status() : in_place(bytes).status();
  fail((why.ok() ? read : why).with_context("rank " + std::to_string(peer()) + " lent its memory"));
  usable_ = false;
  return false;
}

bool ShmConnection::intact() {
  if (!receiver_.is_lent() || receiver_.intact() || receiver_.loan().kept != 0) [[likely]]
    return true;
  fail(failed(Code::peer_lost, "rank " + std::to_string(peer()) +
                                   " took back what it had lent: its call has failed"));
  usable_ = false;
  return false;
}

}  // namespace coll
