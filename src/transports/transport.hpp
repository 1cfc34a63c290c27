// SPDX-License-Identifier: Apache-2.0
// The interface of every transport.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace coll {

/// The calls that use one direction of a connection, one after the other: who was begun first goes
/// first. The transport does not look at it.
struct CallTurns {
  std::uint32_t taken = 0;
  std::uint32_t passed = 0;
};

/// One end of a connection: two bounded FIFOs of messages to one peer, one in each direction, each
/// with one writer and one reader. Used by one thread at a time, never blocking: what cannot be
/// done now says so and is tried again with the same arguments. Messages arrive whole, in order,
/// once.
///
/// A message is at most `slot_bytes()` long, may be empty, and carries the digest of the call it
/// belongs to. The receiver knows length and digest beforehand (it runs the same schedule); a
/// message that differs is a failure (Code::mismatch) and stays unread.
///
/// Sending never waits for the peer's *call*, only for its credits: with one message per direction
/// in flight a sender must get through although the peer has not asked for it yet.
///
/// After a failure every function says "not now" (null, false) and `status()` says why, for good.
class Connection {
 public:
  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection() = default;

  // --- sending
  /// Where to write the next message's payload, or null while no credit is free. Asking again
  /// before `commit` returns the same place. Never null for want of anything but a credit or after
  /// a failure.
  virtual std::byte* acquire(std::size_t bytes) = 0;
  /// Sends the payload written to the place that `acquire(bytes)` gave.
  virtual void commit(std::size_t bytes, std::uint64_t digest) = 0;
  /// Sends from the caller's memory, with fewer copies where the transport can. False: not (wholly)
  /// now, call again with the same arguments; the memory must not change meanwhile. True: it may be
  /// reused.
  virtual bool send(const std::byte* data, std::size_t bytes, std::uint64_t digest) = 0;
  /// Could a message of `bytes` at `data` be lent: read by the receiver in place, or else, with
  /// `fetch`, copied out by it? Asked only for `least_loan()` bytes and more.
  [[nodiscard]] virtual bool lends([[maybe_unused]] const std::byte* data,
                                   [[maybe_unused]] std::size_t bytes,
                                   [[maybe_unused]] bool fetch) const {
    return false;
  }
  /// Like `send`, of what `lends` said yes to; nothing is copied here. The memory must stay as it
  /// is until `flush` is true. Once `acquire(bytes)` gave a place it cannot be refused, and the
  /// place is not needed; a message that `send` refused may be lent instead.
  virtual bool lend(const std::byte* data, std::size_t bytes, std::uint64_t digest) {
    return send(data, bytes, digest);
  }
  /// Like `lend`, of memory that outlives the call: `flush` does not wait until it is read, and
  /// `withdraw` does not take it back. It must stay as it is until the message's credit has come
  /// back, which every loan takes, or `all_read` is true.
  virtual bool lend_kept(const std::byte* data, std::size_t bytes, std::uint64_t digest) {
    return send(data, bytes, digest);
  }
  /// What `lend` lent may change from now on, though nobody took it: its call has failed.
  virtual void withdraw() {}
  /// The shortest message for which lending pays; none does where the transport cannot.
  [[nodiscard]] std::size_t least_loan() const { return least_loan_; }
  /// And the shortest for `lend_kept`: of these no more than the spec's credits are under way, as
  /// long as shorter messages may be more.
  [[nodiscard]] std::size_t least_kept() const { return std::max(least_loan_, least_kept_); }
  /// True once everything sent needs nothing more from this process, nor the caller's memory, to
  /// arrive.
  virtual bool flush() { return true; }
  /// The peer has read all that was ever lent, or will read no more of it: it has stopped reading,
  /// or its process is gone, as far as that can be told. Also after a failure.
  virtual bool all_read() { return true; }

  // --- receiving
  /// The next message's payload, valid until `release`, or null while it is not there. Never null
  /// for an empty message that has come.
  virtual const std::byte* peek(std::size_t bytes, std::uint64_t digest) = 0;
  /// Does `peek` show payloads where they have come to lie, so that `receive` saves no copy?
  [[nodiscard]] virtual bool peeks_in_place() const { return false; }
  /// Was what `peek` shows left as it was until now? If not, its lender has withdrawn it, and this
  /// connection fails; nothing made of it may go further.
  virtual bool intact() { return true; }
  /// Nothing will be read here any more, so the peer need keep nothing for this end.
  virtual void stop_reading() {}
  /// Done with what `peek` returned: gives the credit back.
  virtual void release() = 0;
  /// Receives into the caller's memory, with fewer copies where the transport can. False: not
  /// (wholly) now, call again with the same arguments; the memory is undefined meanwhile. Needs no
  /// release.
  virtual bool receive(std::byte* into, std::size_t bytes, std::uint64_t digest) = 0;

  // --- state
  /// The other end is there too; nothing else may be called before, except `status`.
  [[nodiscard]] virtual bool ready() const { return true; }
  /// Moves bytes that wait in either direction; a waiting executor calls it if `needs_progress()`.
  virtual void progress() {}
  [[nodiscard]] virtual bool needs_progress() const { return false; }
  /// A descriptor to poll(2) for reading while there is nothing to do, -1 where there is none.
  [[nodiscard]] virtual int wait_fd() const { return -1; }
  [[nodiscard]] const Status& status() const { return status_; }

  CallTurns sending, receiving;

  [[nodiscard]] Rank peer() const { return peer_; }
  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }

 protected:
  Connection(Rank peer, std::size_t slot_bytes) : peer_(peer), slot_bytes_(slot_bytes) {}
  void set_least_loan(std::size_t bytes) { least_loan_ = bytes; }
  void set_least_kept(std::size_t bytes) { least_kept_ = bytes; }
  /// Keeps the first failure.
  void fail(const Status& status) {
    if (status_.ok()) status_ = status.at_rank(peer_);
  }

 private:
  Rank peer_ = kNoRank;
  std::size_t slot_bytes_ = 0;
  std::size_t least_loan_ = ~std::size_t{0};
  std::size_t least_kept_ = 0;
  Status status_;
};

/// The failure of a message that belongs to another call, or has another length, than expected. The
/// communicator turns it into one that names both calls.
Status message_mismatch(Rank peer, std::size_t expected_bytes, std::uint64_t expected_digest,
                        std::size_t bytes, std::uint64_t digest);

/// What both ends of a connection agree on beforehand.
struct ConnectionSpec {
  Rank peer = kNoRank;
  std::uint32_t lane = 0;      ///< distinguishes several connections to one peer
  std::size_t slot_bytes = 0;  ///< the longest message, a multiple of 64
  std::uint32_t credits = 0;   ///< messages in flight per direction, at least 1
};

/// A transport of one rank of one communicator. Used by one thread at a time; the connections it
/// opened must be destroyed before it.
class Transport {
 public:
  /// What the planner may count on; the same on every rank for the same settings.
  struct Limits {
    std::size_t slot_bytes;   ///< largest sensible slot
    std::size_t slice_bytes;  ///< of messages that pass through slots one after the other
    std::uint32_t credits;    ///< sensible number of slots
  };

  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual Limits limits() const = 0;
  /// How others reach this rank: opaque bytes, published to all ranks in the rendezvous.
  [[nodiscard]] virtual const std::string& descriptor() const = 0;
  /// Could the two ends talk? Symmetric: if a accepts b, b accepts a. If not, the failure says why.
  [[nodiscard]] virtual Status accepts(std::string_view peer_descriptor) const = 0;
  /// Do messages to a peer that it accepts leave this kernel? Symmetric.
  [[nodiscard]] virtual bool leaves(std::string_view peer_descriptor) const = 0;

  /// Opens this end of a connection; returns at once. The end whose rank is higher dials, the other
  /// one waits for it; neither blocks, whichever comes first. Call `poll` until `ready()` or a
  /// failed status.
  virtual Result<std::unique_ptr<Connection>> open(const ConnectionSpec& spec,
                                                   std::string_view peer_descriptor) = 0;
  /// Moves connecting forward: accepts who has dialled, finishes handshakes, drops strangers.
  virtual void poll() = 0;
};

/// Who a transport serves. `job` is a secret shared by the ranks of this communicator and nobody
/// else: who connects without knowing it is dropped.
struct TransportSpec {
  Rank rank = kNoRank;
  Rank size = 0;
  std::uint64_t job[2] = {0, 0};
  std::string interface;     ///< as the knob COLL_INTERFACE
  bool one_network = false;  ///< all ranks reach each other over this host's loopback
};

/// Is it a connection that this rank can have? The same answer from every transport.
Status check_connection(const TransportSpec& self, const ConnectionSpec& spec);

/// Creates the transport if it is viable on this machine; the failure says why not. Each lives in
/// its folder.
Result<std::unique_ptr<Transport>> make_shm_transport(const TransportSpec& spec);
Result<std::unique_ptr<Transport>> make_tcp_transport(const TransportSpec& spec);

}  // namespace coll
