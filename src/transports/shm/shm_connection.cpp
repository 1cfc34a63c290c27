// SPDX-License-Identifier: Apache-2.0
// A connection's begin and end, and what only lent and long messages need. What runs for every
// message is in the header.
#include "transports/shm/shm_connection.hpp"

#include <algorithm>
#include <new>
#include <optional>

#include "base/log.hpp"
#include "sys/clock.hpp"
#include "transports/shm/shm_transport.hpp"

namespace coll {
namespace {

constexpr std::size_t kPage = 4096;

/// How long the first long messages of a program are taken to be. A call with many peers sends each
/// of them little, and what is short has other slots.
std::size_t first_bytes(Rank ranks) {
  constexpr std::size_t kOfAllPeers = 128 << 10;
  const std::size_t bytes = kOfAllPeers / static_cast<std::size_t>(ranks);
  return bytes > ShmFifo::kSmallBytes ? bytes : 0;
}

}  // namespace

std::uint32_t ShmLayout::small_slots() const {
  return slot_bytes > ShmFifo::kSmallBytes ? ShmFifo::kSmallSlots : 0;
}

std::size_t ShmLayout::slots_bytes() const {
  return small_slots() * ShmFifo::kSmallStride + credits * slot_bytes;
}

std::size_t ShmLayout::segment_bytes() const {
  return round_up(round_up(2 * ShmFifo::control_bytes(cells()), kPage) + 2 * slots_bytes(), kPage);
}

ShmFifo ShmLayout::fifo(std::byte* segment, int direction) const {
  const auto index = static_cast<std::size_t>(direction);
  const std::size_t control = ShmFifo::control_bytes(cells());
  std::byte* consumed = segment + index * control;
  std::byte* lender = consumed + sizeof(ShmConsumed);
  std::byte* share = lender + sizeof(ShmLender);
  std::byte* wanted = share + sizeof(ShmShare);
  std::byte* slots = segment + round_up(2 * control, kPage) + index * slots_bytes();
  const ShmSlots small{slots, ShmFifo::kSmallStride, small_slots(),
                       std::min(small_slots(), ShmFifo::kSmallCredits)};
  return {.consumed = reinterpret_cast<ShmConsumed*>(consumed),
          .lender = reinterpret_cast<ShmLender*>(lender),
          .share = reinterpret_cast<ShmShare*>(share),
          .wanted = reinterpret_cast<ShmWantedRing*>(wanted),
          .cells = reinterpret_cast<ShmCell*>(wanted + sizeof(ShmWantedRing)),
          .cell_count = cells(),
          .slots = {small, {slots + small.bytes(), slot_bytes, credits, credits}}};
}

ShmConnection::~ShmConnection() {
  if (sharing_) end_sharing();
  if (transport_ != nullptr) transport_->forget(this);
  ShmConnection::stop_reading();
  if (lands()) sender_.give_up_landing();
  sender_.end(std::move(segment_), reach_.copies ? peer_pid_ : 0);
}

void ShmConnection::start(MemorySegment segment, const ShmLayout& layout, bool dialled,
                          const MemoryProof& peer, PeerSegments* segments) {
  segment_ = std::move(segment);
  sender_ = ShmSender(layout.fifo(segment_.data(), dialled ? 0 : 1), 1,
                      ShmSlotTrial::latest(ShmSlotSize::small),
                      ShmSlotTrial::latest(ShmSlotSize::large), ranks_per_core_);
  set_streamed(sender_.streamed());
  const ShmFifo back = layout.fifo(segment_.data(), dialled ? 1 : 0);
  sender_.listen_to(*back.lender, !dialled);
  receiver_ = ShmReceiver(back);
  if (sender_.has_small_slots()) set_least_kept(ShmFifo::kSmallBytes + 1);
  reach_.said = true;
  reach_.copies = can_read_memory_of(peer);
  SharedPlace begin;
  begin.segment = SharedPlace::kArena;
  reach_.maps = segments != nullptr && segments->at(begin, 1).ok();
  reach_.opens = segments != nullptr && segments->opens();
  helps_ = reach_.copies;
  peer_pid_ = peer.pid;
  peer_proof_ = peer;
  peer_segments_ = segments;
  receiver_.say(reach_);
  slot_pool_ = ShmSlotPool::join(peer, back.slots[1], first_bytes(transport_->ranks()), transport_);
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
  if (peer_reach_.copies) set_least_loan(kTriedBytes);
  if (!peer_reach_.maps) return;
  set_least_loan(kReadingBytes);
  if (slot_pool_.pool) sender_.share_blocks(slot_pool_);
}

bool ShmConnection::lends(const std::byte* data, std::size_t bytes, Fetch fetch) {
  sender_.goes_one_way();
  if (sender_.is_wanted(bytes)) return false;
  if (peer_reach_.maps) {
    const auto place = SharedSegments::find(data, bytes);
    if (place && peer_reach_.in_place(*place)) return true;
  }
  if (!peer_reach_.copies || fetch == Fetch::never) return false;
  if (bytes < (fetch == Fetch::copied ? kTriedBytes : kCopyingBytes)) return false;
  if (fetch == Fetch::always) return true;
  // The peer has to be able to lend, too: mostly a trial is of both directions.
  return reach_.copies && !crowded() && sender_.lends_either_way(bytes, fetch == Fetch::copied);
}

bool ShmConnection::lend(const std::byte* data, std::size_t bytes, std::uint64_t digest,
                         bool kept) {
  COLL_CHECK(needs_slot(bytes), "a message is lent that is too short to take a slot's credit");
  if (!may_send(bytes)) return false;
  if (!sender_.has_slot(bytes)) {
    no_credit();
    return false;
  }
  ShmLoan loan{.slot = {},
               .of = kept ? ShmLoanOf::transport : ShmLoanOf::call,
               .address = reinterpret_cast<std::uint64_t>(data),
               .removals = SharedSegments::removals(),
               .place = SharedSegments::find(data, bytes).value_or(SharedPlace{})};
  if (!peer_reach_.in_place(loan.place)) loan.place = {};
  sender_.lend(loan, bytes, digest);
  return true;
}

bool ShmConnection::all_read() {
  if (caught_up() || sender_.has_stopped()) return true;
  // A process id is worth asking about only if it was proved to be the peer's.
  return reach_.copies && peer_is_gone();
}

bool ShmConnection::peer_is_gone() const {
  std::byte nothing{};
  return read_peer_memory(peer_pid_, 0, &nothing, 1).code() == Code::peer_lost;
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
  if (fetched_ != nullptr) return fetched_;
  if (receiver_.loan().of == ShmLoanOf::receiver) [[unlikely]]
    return landed(bytes);
  if (const auto place = in_place(bytes); place.ok() && *place != nullptr) [[likely]] {
    receiver_.begin_to_read();
    return *place;
  }
  std::byte* const slot = receiver_.payload(bytes);  // its time begins
  if (fetch(slot, 0, bytes)) fetched_ = slot;
  return fetched_;
}

bool ShmConnection::fetches(std::size_t bytes) {
  const bool is_long = usable_ && bytes >= kTriedBytes;
  return is_long && receiver_.has_next(bytes | kLent) && receiver_.loan().place.segment == 0;
}

/// Copies the lent payload to `into`: from where it lies in place, or else by fetching it.
bool ShmConnection::take(std::byte* into, std::size_t bytes) {
  if (receiver_.loan().of == ShmLoanOf::receiver) [[unlikely]] {
    const std::byte* const there = landed(bytes);
    if (there != nullptr && there != into) copy_bytes(into, there, bytes);
    return there != nullptr;
  }
  const auto found = in_place(bytes);
  const std::byte* const place = found.ok() ? *found : nullptr;
  receiver_.begin_to_read();
  if (bytes >= kSharedBytes && !crowded()) {
    if (!peer_reach_.said) [[unlikely]]
      learn_reach();
    if (peer_reach_.copies && (sharing_ || receiver_.may_share()))
      return take_together(into, place, bytes);
  }
  return take_piece(into, place, {.begin = 0, .bytes = bytes}) && intact();
}

bool ShmConnection::take_piece(std::byte* into, const std::byte* place, const ShmPiece& piece) {
  if (place == nullptr) return fetch(into + piece.begin, piece.begin, piece.bytes);
  copy_bytes(into + piece.begin, place + piece.begin, piece.bytes);
  return true;
}

/// Copies the payload, together with its sender once that waits. False also while the sender has
/// not finished its part.
bool ShmConnection::take_together(std::byte* into, const std::byte* place, std::size_t bytes) {
  const std::uint32_t units = share_units(bytes);
  // Few pieces, as each is a system call, but soon a look at the sender. Where both send at the
  // same time neither waits: after two messages alone, one in eight is enough to look at.
  const bool looks = taken_alone_ < 2 || taken_alone_ % 8 == 0;
  for (std::uint32_t taken = 0, next = looks ? kLeastShare : units; !sharing_; next *= 4) {
    const std::uint32_t left = units - taken;
    if (left >= 2 * kLeastShare && receiver_.peer_waits()) {
      sharing_ = true;
      taken_alone_ = 0;
      if (!take_piece(into, place, receiver_.share_out(into, taken, bytes))) return false;
      break;
    }
    const std::uint32_t now = left < next + kLeastShare ? left : next;
    if (!take_piece(into, place, piece_of(taken, now, bytes))) return false;
    taken += now;
    if (taken < units) continue;
    ++taken_alone_;
    return intact();
  }
  while (const auto piece = receiver_.claim(bytes))
    if (!take_piece(into, place, *piece)) return false;
  if (!receiver_.peer_has_copied()) return false;
  const std::optional<ShmPiece> left = receiver_.left_by_peer(bytes);
  if (!left) {
    fail_credits();
    return false;
  }
  if (left->units != 0 && !take_piece(into, place, *left)) return false;
  receiver_.end_share();
  sharing_ = false;
  return intact();
}

/// Copies a part of a lent message for the peer, if that is copying one.
void ShmConnection::help() {
  if (!helps_ || crowded() || !sender_.can_help()) return;
  sender_.say_waits();
  auto loan = sender_.shared_loan();
  if (!loan || loan->message == refused_) return;
  while (const auto piece = sender_.claim(*loan)) {
    Status written;
    if (is_peer_still()) {
      written = write_peer_memory(peer_pid_, loan->into + piece->begin, loan->data + piece->begin,
                                  piece->bytes);
    } else {
      written = failed(Code::peer_lost, "another process has its number");
    }
    sender_.has_copied(*loan, *piece, written.ok());
    if (written.ok()) continue;
    // There is memory that cannot be written from elsewhere.
    refused_ = loan->message;
    helps_ = written.code() != Code::peer_lost && written.code() != Code::unsupported;
    return;
  }
}

/// Its number may have become another process's while this one stood still.
bool ShmConnection::is_peer_still() {
  constexpr std::uint64_t kProvedNs = 100'000'000;
  const std::uint64_t now = now_ns();
  if (now - proved_ns_ < kProvedNs) return true;
  if (!can_read_memory_of(peer_proof_)) return false;
  proved_ns_ = now;
  return true;
}

/// The sender of a message writes no more into memory of this process.
void ShmConnection::end_sharing() {
  sharing_ = false;
  receiver_.close_share();
  outwait([&] { return receiver_.peer_has_copied(); });
}

/// Waits until the peer is `done` with writing into memory of this process, which has ended that.
template <class Done>
void ShmConnection::outwait(Done done) const {
  constexpr std::uint64_t kMostNs = 1'000'000'000;
  const std::uint64_t begin = now_ns();
  while (!done()) {
    if (peer_is_gone()) return;
    if (now_ns() - begin > kMostNs) {
      log(LogLevel::warn, "rank " + std::to_string(peer()) +
                              " stands still while it writes a message into memory of this rank, "
                              "which may change once that goes on");
      return;
    }
  }
}

// --- landing

/// Where to write the next message, of `bytes`, for which there is a slot.
std::byte* ShmConnection::where_wanted(std::byte* slot, std::size_t bytes) {
  const bool placed = std::exchange(placed_, sender_.position()) == sender_.position();
  if ((placed && !lands()) || !sender_.is_wanted(bytes) || peer_segments_ == nullptr) [[likely]]
    return slot;
  const auto place = peer_segments_->to_write(sender_.wanted().offset, bytes);
  if (!place.ok() || !sender_.claim_landing()) return slot;
  set_lands(true);
  return *place;
}

/// Where the next message was written, of which its sender says that this was where it is wanted.
const std::byte* ShmConnection::landed(std::size_t bytes) {
  const std::byte* const place =
      landings_ ? landings_->place_of(receiver_.position(), bytes) : nullptr;
  if (place == nullptr) fail_credits();
  return place;
}

std::uint64_t ShmConnection::next() const {
  return receiver_.position() - 1;
}

void ShmConnection::expect(std::uint64_t number, std::byte* into, std::size_t bytes, bool) {
  const std::uint64_t sequence = number + 1, next = receiver_.position();
  if (!usable_ || bytes <= ShmFifo::kSmallBytes) return;
  if (sequence < std::max(next, expected_) || sequence >= next + ShmWantedRing::kAhead) return;
  if (!peer_reach_.said) learn_reach();
  const auto place = SharedSegments::find(into, bytes);
  if (!peer_reach_.maps || !place || place->segment != SharedPlace::kArena) return;
  if (!landings_) landings_.reset(new (std::nothrow) ShmLandings(receiver_.wanted()));
  if (!landings_) return;
  landings_->tell(sequence, into, place->offset, bytes);
  expected_ = sequence + 1;
}

void ShmConnection::cancel() {
  const auto wait = [&](auto done) { outwait(done); };
  if (!landings_ || !landings_->cancel(receiver_.position(), wait)) return;
  fail(failed(Code::aborted, "a call has failed, and messages were expected in its memory"));
  usable_ = false;
}

void ShmConnection::no_credit() {
  if (sender_.broken()) return fail_credits();
  help();
}

/// Copies the lent payload's bytes from `begin` on out of the sender's process. Also the fallback
/// for a segment that cannot be mapped.
bool ShmConnection::fetch(std::byte* into, std::size_t begin, std::size_t bytes) {
  const Status read = read_peer_memory(peer_pid_, receiver_.loan().address + begin, into, bytes);
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
  if (!receiver_.is_lent() || receiver_.intact() || receiver_.loan().of != ShmLoanOf::call)
      [[likely]]
    return true;
  fail(failed(Code::peer_lost, "rank " + std::to_string(peer()) +
                                   " took back what it had lent: its call has failed"));
  usable_ = false;
  return false;
}

}  // namespace coll
