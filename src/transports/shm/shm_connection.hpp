// SPDX-License-Identifier: Apache-2.0
// One end of a connection through shared memory.
#pragma once
#include <algorithm>
#include <memory>
#include <utility>

#include "base/copy_bytes.hpp"
#include "sys/memory/memory_segment.hpp"
#include "sys/memory/peer_memory.hpp"
#include "sys/memory/peer_segments.hpp"
#include "transports/shm/shm_receiver.hpp"
#include "transports/shm/shm_sender.hpp"
#include "transports/transport.hpp"

namespace coll {

class ShmTransport;

/// The segment of a connection: counts and cells of both directions, then the slots of both.
struct ShmLayout {
  std::size_t slot_bytes = 0;
  std::uint32_t credits = 0;
  bool crowded = false;  ///< for ranks that share cores

  static ShmLayout of(const ConnectionSpec& spec) {
    return {spec.slot_bytes, spec.credits, spec.ranks_per_core > 1};
  }
  [[nodiscard]] std::size_t segment_bytes() const;
  /// Direction 0 goes from the end that dials (and made the segment) to the one that listens.
  [[nodiscard]] ShmFifo fifo(std::byte* segment, int direction) const;

 private:
  /// Where ranks share cores, small messages run further ahead: each wait for credits is a change
  /// of processes. Elsewhere a shorter ring is faster (docs/performance.md).
  [[nodiscard]] std::uint32_t cells() const { return std::max(credits, crowded ? 128U : 64U); }
  [[nodiscard]] std::uint32_t small_slots() const;
  [[nodiscard]] std::size_t slots_bytes() const;  ///< of one direction
};

/// Two FIFOs in one segment. Once messages of all kinds have passed, it takes no lock, allocates
/// nothing, and calls the operating system only to copy lent memory; but where there are several
/// communicators, it takes a lock when it needs a block that another one has taken. The death of
/// the peer looks like silence: "not now".
class ShmConnection final : public Connection, public Lending, public Landing {
 public:
  ShmConnection(const ConnectionSpec& spec, ShmTransport* transport)
      : Connection(spec.peer, spec.slot_bytes),
        transport_(transport),
        ranks_per_core_(spec.ranks_per_core) {}
  ~ShmConnection() override;

  std::byte* acquire(std::size_t bytes) override {
    COLL_CHECK(bytes <= slot_bytes(), "a message is longer than a slot");
    if (!may_send(bytes)) [[unlikely]]
      return nullptr;
    std::byte* const place = sender_.acquire(bytes);
    if (place != nullptr && bytes <= ShmFifo::kSmallBytes) [[likely]]
      return place;
    if (place != nullptr) return where_wanted(place, bytes);
    no_credit();
    return nullptr;
  }
  void commit(std::size_t bytes, std::uint64_t digest) override {
    const bool passed_on = bytes > ShmFifo::kAhead && receiver_.note_written();
    sender_.commit(bytes, digest, {std::exchange(streaming_, true), passed_on});
    if (bytes <= ShmFifo::kAhead) [[likely]]
      return;
    // Only such messages are ever streamed; and only longer ones land.
    set_streamed(sender_.streamed());
    set_lands(false);
  }
  bool send(const std::byte* data, std::size_t bytes, std::uint64_t digest) override {
    std::byte* place = acquire(bytes);
    if (place == nullptr) return false;
    copy_bytes(place, data, bytes);
    commit(bytes, digest);
    return true;
  }

  [[nodiscard]] bool lends(const std::byte* data, std::size_t bytes, Fetch fetch) override;
  bool lend(const std::byte* data, std::size_t bytes, std::uint64_t digest) override {
    return lend(data, bytes, digest, false);
  }
  bool lend_kept(const std::byte* data, std::size_t bytes, std::uint64_t digest) override {
    return lend(data, bytes, digest, true);
  }
  void withdraw() override {
    sender_.withdraw();
    sender_.give_up_landing();
    if (sharing_) end_sharing();
  }
  bool caught_up() override { return sender_.caught_up(); }
  bool all_read() override;
  [[nodiscard]] Mark mark() const override { return sender_.mark(); }
  bool flushed(Mark mark) override {
    if (sender_.returned(mark)) return true;
    help();
    return sender_.returned(mark);
  }

  const std::byte* peek(std::size_t bytes, std::uint64_t digest) override {
    const auto next = look(bytes, digest);
    if (next == ShmReceiver::Next::expected) [[likely]]
      return receiver_.payload(bytes);
    return next == ShmReceiver::Next::lent ? borrow(bytes) : nullptr;
  }
  bool intact() override;
  [[nodiscard]] bool fetches(std::size_t bytes) override;
  void release() override {
    receiver_.release();
    streaming_ = false;
    fetched_ = nullptr;
  }
  bool receive(std::byte* into, std::size_t bytes, std::uint64_t digest) override {
    const auto next = look(bytes, digest);
    if (next == ShmReceiver::Next::expected) [[likely]] {
      copy_bytes(into, receiver_.payload(bytes), bytes);
    } else if (next != ShmReceiver::Next::lent || !take(into, bytes)) {
      return false;
    }
    release();
    return true;
  }
  void stop_reading() override {
    if (ready_) receiver_.stop();
  }

  [[nodiscard]] std::uint64_t next() const override;
  [[nodiscard]] std::uint64_t ahead() const override { return 8; }
  [[nodiscard]] bool only_computed() const override { return true; }
  void expect(std::uint64_t number, std::byte* into, std::size_t bytes, bool) override;
  void cancel() override;

  Lending* lending() override { return this; }
  Landing* landing() override { return this; }
  [[nodiscard]] bool ready() const override { return ready_; }

  // For the transport, while it connects.
  /// `segments` are the peer's, null where it has passed none.
  void start(MemorySegment segment, const ShmLayout& layout, bool dialled, const MemoryProof& peer,
             PeerSegments* segments);
  void give_up(const Status& failure);

  /// From these sizes on lending is cheaper than copying twice (docs/performance.md): for a peer
  /// that reads in place, and for a peer that copies.
  static constexpr std::size_t kReadingBytes = 1024;
  static constexpr std::size_t kCopyingBytes = ShmLoanTrial::kMiddle;
  /// From this size on it may be cheaper where messages are only copied.
  static constexpr std::size_t kTriedBytes = 6 << 10;

 private:
  // A loan takes the credit of a slot, which comes back only when it has been read.
  static_assert(needs_slot(kReadingBytes) && kTriedBytes > ShmFifo::kSmallBytes);

  [[nodiscard]] bool crowded() const { return ranks_per_core_ > 1; }
  /// What the next message is. Next::other fails the connection.
  ShmReceiver::Next look(std::size_t bytes, std::uint64_t digest) {
    COLL_CHECK(bytes <= slot_bytes(), "a message is longer than a slot");
    if (!usable_) [[unlikely]]
      return ShmReceiver::Next::none;
    const auto next = receiver_.next(bytes, digest);
    if (next == ShmReceiver::Next::other) [[unlikely]]
      fail_message(bytes, digest);
    // Not while messages alternate: the peer would be writing that cell.
    if (next == ShmReceiver::Next::expected && !streaming_ && needs_slot(bytes))
      receiver_.foresee(bytes);
    return next;
  }
  bool may_send(std::size_t bytes) {
    if (!usable_) [[unlikely]]
      return false;
    if (!needs_slot(bytes) || peer_reach_.said) [[likely]]
      return true;
    learn_reach();
    // A large slot is memory that no other connection uses.
    return peer_reach_.said || !sender_.needs_large_slot(bytes);
  }
  bool lend(const std::byte* data, std::size_t bytes, std::uint64_t digest, bool kept);
  void learn_reach();
  Result<const std::byte*> in_place(std::size_t bytes);
  const std::byte* borrow(std::size_t bytes);
  bool take(std::byte* into, std::size_t bytes);
  bool take_piece(std::byte* into, const std::byte* place, const ShmPiece& piece);
  bool take_together(std::byte* into, const std::byte* place, std::size_t bytes);
  bool fetch(std::byte* into, std::size_t begin, std::size_t bytes);
  void help();
  bool is_peer_still();
  [[nodiscard]] bool peer_is_gone() const;
  void end_sharing();
  template <class Done>
  void outwait(Done done) const;
  std::byte* where_wanted(std::byte* slot, std::size_t bytes);
  const std::byte* landed(std::size_t bytes);
  void no_credit();
  void fail_credits();
  void fail_message(std::size_t bytes, std::uint64_t digest);

  bool usable_ = false;  ///< ready and not failed
  bool ready_ = false;
  bool streaming_ = false;         ///< nothing was received since the last message went out
  std::byte* fetched_ = nullptr;   ///< where the next message, which was lent, has been copied to
  bool sharing_ = false;           ///< the next message is being copied together with the peer
  bool helps_ = false;             ///< this end can write into the peer's memory, as far as known
  std::uint32_t taken_alone_ = 0;  ///< long messages since the peer last waited for one
  std::uint64_t placed_ = 0;       ///< the last long message that was given a place
  std::uint64_t expected_ = 0;     ///< the receiver has told of messages before this one
  std::unique_ptr<ShmLandings> landings_;  ///< null: it has never told of any
  std::int32_t refused_ = -1;              ///< the shared message that it could not write
  ShmReach reach_;                         ///< of this end to the peer's memory
  ShmReach peer_reach_;                    ///< of the peer to ours
  std::int64_t peer_pid_ = 0;
  MemoryProof peer_proof_;
  std::uint64_t proved_ns_ = 0;  ///< when the process of that number was last known to be the peer
  PeerSegments* peer_segments_ = nullptr;  ///< the transport's
  ShmSlotPool::Membership slot_pool_;
  ShmSender sender_;
  alignas(kCacheLine) ShmReceiver receiver_;
  MemorySegment segment_;
  ShmTransport* transport_;  ///< null once the transport has no part in this any more
  const double ranks_per_core_;
};

}  // namespace coll
