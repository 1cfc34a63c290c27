// SPDX-License-Identifier: Apache-2.0
// The interface of every transport.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace coll {

class DevicePort;

/// The turns of calls that use something one after the other, such as a direction of a connection:
/// the call that began first goes first. The transport does not look at them.
struct CallTurns {
  std::uint32_t taken = 0;
  std::uint32_t passed = 0;
};

/// A position between two messages that are sent over a connection. 0 lies before all of them. Only
/// the connection knows how it counts; it never counts down.
using Mark = std::uint64_t;

/// May a receiver copy a message out of its sender's process?
enum class Fetch : std::uint8_t {
  never,
  if_faster,  ///< than through a slot, as the connection finds; not a short one
  copied,     ///< the same of what is only copied, also a short one; the first long ones always
  always,     ///< unless it is short
};

/// Lets the peer read messages out of this process's memory, so that they need not be copied into
/// the connection first. A connection that can do this hands it out by `Connection::lending()`; it
/// lives as long as the connection. Either both ends of a connection have it or neither has.
///
/// A lent message is a message like any other: it takes a credit, arrives in order, and the peer
/// receives it with `peek` or `receive`. On such a connection `peek` never copies a payload that
/// can be read where it lies.
class Lending {
 public:
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;

  // --- the sender's
  /// Shorter messages are not worth lending. May shrink after the first messages, when the
  /// connection has learned what the peer can reach.
  [[nodiscard]] std::size_t least_loan() const { return least_loan_; }
  /// The same for `lend_kept`. While all messages are at least this long, no more of them are under
  /// way than the connection has credits.
  [[nodiscard]] std::size_t least_kept() const { return std::max(least_loan_, least_kept_); }
  /// Can the next message be lent? The peer reads it in place where it can, and may copy it out of
  /// this process only if `fetch` allows that. Ask only for `least_loan()` bytes or more, and right
  /// before sending: the answer is for that message.
  [[nodiscard]] virtual bool lends(const std::byte* data, std::size_t bytes, Fetch fetch) = 0;
  /// Sends a message that `lends` agreed to. False: not now, call again with the same arguments.
  /// True: the memory must stay unchanged until a `Connection::mark` taken now is `flushed`, or a
  /// message has come, from any rank, that could be computed only once this one had been read.
  ///
  /// After `acquire(bytes)` gave a place, `lend` succeeds, and that place stays unused. A message
  /// that `send` refused may be lent instead.
  virtual bool lend(const std::byte* data, std::size_t bytes, std::uint64_t digest) = 0;
  /// Like `lend`, for memory that outlives the call: no mark waits for it, and `withdraw`
  /// does not take it back. The memory must stay unchanged until the message's credit has come back
  /// or `all_read` is true.
  virtual bool lend_kept(const std::byte* data, std::size_t bytes, std::uint64_t digest) = 0;
  /// May messages of any length be lent from memory of the rank's GPU, if it is held
  /// (held_ranges.hpp) and `lends` agrees to it as a whole? Then the processor never touches it.
  [[nodiscard]] virtual bool may_lend_of_gpu() const { return false; }
  /// Some memory is held no more: what devices know of it ends now, and not with a later message.
  virtual void forget_ended() {}
  /// A call has failed, and its memory may change from now on. The peer fails if it reads what
  /// `lend` lent and it had not read yet. This takes back the loans of all calls on the connection,
  /// not only those of that call: a failure ends every call of the communicator. The receiver of a
  /// loan calls it, too: from then on the peer writes nothing into the memory to which a `receive`
  /// was under way. That may wait for a write of the peer's, a second at most.
  virtual void withdraw() = 0;
  /// Has the peer read all that was ever lent? Makes no system call.
  [[nodiscard]] virtual bool caught_up() = 0;
  /// Like `caught_up`, but also true once the peer has stopped reading, or its process is known to
  /// be gone. May be called after a failure.
  virtual bool all_read() = 0;

  // --- the receiver's
  /// Call after using what `peek` returned and before passing the result on. False: the sender has
  /// withdrawn the message, this connection has failed, and the result is worthless.
  virtual bool intact() = 0;
  /// Is the next message, of `bytes`, there, and in memory that this process does not share? Then
  /// `receive` copies it once, and `peek` brings it to a place of the connection first.
  [[nodiscard]] virtual bool fetches([[maybe_unused]] std::size_t bytes) { return false; }
  /// This end reads no more, so the peer need keep nothing for it.
  virtual void stop_reading() = 0;

 protected:
  Lending() = default;
  ~Lending() = default;
  void set_least_loan(std::size_t bytes) { least_loan_ = bytes; }
  void set_least_kept(std::size_t bytes) { least_kept_ = bytes; }

 private:
  std::size_t least_loan_ = ~std::size_t{0};
  std::size_t least_kept_ = 0;
};

/// Lets the peer write messages to where this end will want them, so that nobody copies them there.
/// A connection that can do this hands it out by `Connection::landing()`; it lives as long as the
/// connection. Either both ends of a connection have it or neither has.
class Landing {
 public:
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;

  /// The number of the next message that this end will receive. The connection counts from 0.
  [[nodiscard]] virtual std::uint64_t next() const = 0;
  /// Up to so many messages ahead it is worth saying where they are wanted.
  [[nodiscard]] virtual std::uint64_t ahead() const = 0;
  /// Is it worth it only for messages that their sender computes? It then computes them into that
  /// memory. What it has in a buffer the receiver may copy as well.
  [[nodiscard]] virtual bool only_computed() const { return false; }
  /// Message `number` will be received to [into, into + bytes), by `receive` or by a `peek`, which
  /// returns `into` if the message was written there. Nobody else may touch that memory until then:
  /// its content is undefined. Where `part_first`, this end still sends what lies there, so it is
  /// defined until the peer sends the message: that could be computed only once what this end sends
  /// had been read. This is a hint, since the peer may send the message to a slot. To be given in
  /// ascending order; what was told of already is ignored.
  virtual void expect(std::uint64_t number, std::byte* into, std::size_t bytes,
                      bool part_first) = 0;
  void expect(std::uint64_t number, std::byte* into, std::size_t bytes) {
    expect(number, into, bytes, false);
  }

  /// A call has failed, and its memory is the caller's again: the peer writes there no more. This
  /// ends what was told for all calls on the connection, which fails if anything was.
  virtual void cancel() = 0;

 protected:
  Landing() = default;
  ~Landing() = default;
};

/// Moves the bytes of all connections of a transport at once, where the processor has to do that.
/// So a round in vain costs no more where there are many connections. Lives as long as they do; one
/// thread at a time uses it.
class ProgressSource {
 public:
  ProgressSource() = default;
  ProgressSource(const ProgressSource&) = delete;
  ProgressSource& operator=(const ProgressSource&) = delete;

  /// Moves bytes that wait in either direction. Whoever waits for one of the connections calls it
  /// in each round in which nothing moved.
  virtual void progress() = 0;
  /// To be asked before a nap: has anything come since the last look? Then try again instead.
  virtual bool has_news() { return false; }
  /// After `has_news`: what poll(2) finds readable when there is news again; -1: nothing tells.
  [[nodiscard]] virtual int wait_fd() const { return -1; }

 protected:
  ~ProgressSource() = default;
};

/// Lengths of messages, in bytes: from `least` to `most`; none by default.
struct LengthRange {
  std::size_t least = 1, most = 0;

  [[nodiscard]] bool has(std::size_t bytes) const { return bytes >= least && bytes <= most; }
};

/// One end of a connection to one peer: a bounded FIFO of messages in each direction, each with one
/// writer and one reader. One thread at a time uses it. No function blocks: what cannot be done now
/// says so, and the caller tries again with the same arguments. Messages arrive whole, in order,
/// and once.
///
/// A message has 0 to `slot_bytes()` bytes and carries the digest of its call. The receiver runs
/// the same schedule, so it knows length and digest beforehand. A message that differs is a failure
/// (Code::mismatch) and stays unread.
///
/// A sender waits for credits, never for the peer's call: with one message in flight per direction,
/// sending succeeds even if the peer has not asked for the message yet.
///
/// After a failure every function says "not now" (null or false), and `status()` says why, for
/// good.
class Connection {
 public:
  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection() = default;

  // --- sending
  /// Where to write the next message's payload. Null only without a free credit, while the peer has
  /// not finished connecting or another thread takes memory that is not used, or after a failure.
  /// Returns the same place until `commit`.
  virtual std::byte* acquire(std::size_t bytes) = 0;
  /// Is the place from `acquire` in the receiver's memory, where it wants the message?
  [[nodiscard]] bool lands() const { return lands_; }
  /// Sends the payload that was written to the place from `acquire(bytes)`.
  virtual void commit(std::size_t bytes, std::uint64_t digest) = 0;
  /// Is a payload of `bytes` better written past the caches to the place from `acquire`? Then
  /// `send` is not the best way to send it.
  [[nodiscard]] bool is_streamed(std::size_t bytes) const { return streamed_.has(bytes); }
  /// Sends from the caller's memory, which may save a copy. False: not (wholly) now, call again
  /// with the same arguments and leave the memory unchanged. True: the memory may be reused.
  virtual bool send(const std::byte* data, std::size_t bytes, std::uint64_t digest) = 0;
  /// Behind all that has been sent so far.
  [[nodiscard]] virtual Mark mark() const = 0;
  /// True once all messages before the mark will arrive without more work by this process (unless a
  /// link breaks that the transport mends), and the peer has read those of them that
  /// `Lending::lend` lent. What was sent after the mark changes nothing: it belongs to later calls,
  /// for which no earlier call waits.
  virtual bool flushed(Mark mark) = 0;

  // --- receiving
  /// The next message's payload, valid until `release`. Null while it has not come; not null for an
  /// empty message that has.
  virtual const std::byte* peek(std::size_t bytes, std::uint64_t digest) = 0;
  /// Up to this length a message is better taken whole by `peek` than in parts of that length.
  [[nodiscard]] std::size_t part_bytes() const { return part_bytes_; }
  /// As `peek`, for a caller that combines the message part by part: [begin, begin + part) of it,
  /// valid until the next part. Parts are asked for in order and without gaps, from 0 to the end,
  /// and all of them before `release`; nothing else is received meanwhile. The part may be put into
  /// `room`, the caller's, if not null. Null: not now, call again with the same arguments; `room`
  /// is undefined until then. The peer may be waiting for room until the last part is taken: what
  /// the caller needs from it, such as a credit, it must have before the first.
  virtual const std::byte* peek_part(std::size_t begin, std::size_t /*part*/, std::size_t bytes,
                                     std::uint64_t digest, std::byte* /*room*/) {
    const std::byte* const message = peek(bytes, digest);
    return message == nullptr ? nullptr : message + begin;
  }
  /// Consumes the message that `peek` or `peek_part` returned, and gives its credit back.
  virtual void release() = 0;
  /// Receives into the caller's memory, which may save a copy, and consumes the message. False: not
  /// (wholly) now, call again with the same arguments; the memory is undefined until then.
  virtual bool receive(std::byte* into, std::size_t bytes, std::uint64_t digest) = 0;

  // --- what only some can
  /// Null where the connection cannot lend. The answer never changes, so callers ask once.
  virtual Lending* lending() { return nullptr; }
  /// Null where the peer cannot write into memory of the program. The answer never changes.
  virtual Landing* landing() { return nullptr; }
  /// Null where the connection serves no device. The answer never changes once it is ready.
  virtual DevicePort* device_port() { return nullptr; }

  // --- state
  /// Is the other end there too? Until then only `status` and `lending` may be called.
  [[nodiscard]] virtual bool ready() const = 0;
  /// What moves its bytes while its caller waits; null where nothing has to. The answer never
  /// changes.
  [[nodiscard]] virtual ProgressSource* progress_source() { return nullptr; }
  [[nodiscard]] const Status& status() const { return failing_->status_; }

  CallTurns sending, receiving;

  [[nodiscard]] Rank peer() const { return peer_; }
  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }
  /// Reserved for messages at this end; 0 until it is ready.
  [[nodiscard]] virtual std::size_t buffer_bytes() const { return buffer_bytes_; }

 protected:
  Connection(Rank peer, std::size_t slot_bytes) : peer_(peer), slot_bytes_(slot_bytes) {}
  /// For a connection around another one: what fails either of them fails both.
  explicit Connection(Connection* inner)
      : peer_(inner->peer_), slot_bytes_(inner->slot_bytes_), failing_(inner->failing_) {}
  void set_buffer_bytes(std::size_t bytes) { buffer_bytes_ = bytes; }
  void set_lands(bool lands) { lands_ = lands; }
  void set_streamed(const LengthRange& lengths) { streamed_ = lengths; }
  void set_part_bytes(std::size_t bytes) { part_bytes_ = bytes; }
  /// Keeps the first failure.
  void fail(const Status& status) {
    if (failing_->status_.ok()) failing_->status_ = status.at_rank(peer_);
  }

 private:
  Rank peer_ = kNoRank;
  std::size_t slot_bytes_ = 0;
  std::size_t buffer_bytes_ = 0;
  bool lands_ = false;
  LengthRange streamed_;
  std::size_t part_bytes_ = std::numeric_limits<std::size_t>::max();
  Status status_;
  Connection* failing_ = this;  ///< whose status is meant: that of the innermost connection
};

/// The failure of a message whose call or length is not the expected one. The communicator turns it
/// into a failure that names both calls.
Status message_mismatch(Rank peer, std::size_t expected_bytes, std::uint64_t expected_digest,
                        std::size_t bytes, std::uint64_t digest);

/// The fewest credits that a communicator gives its connections. The verifier needs one; but a
/// fused step holds its received slot until it gets one to send in.
inline constexpr std::uint32_t kLeastCredits = 2;

/// What both ends of a connection agree on beforehand.
struct ConnectionSpec {
  Rank peer = kNoRank;
  std::uint32_t lane = 0;      ///< distinguishes connections to the same peer
  std::size_t slot_bytes = 0;  ///< the longest message, a multiple of 64
  std::uint32_t credits = 0;   ///< messages in flight per direction, at least 1
  double ranks_per_core = 1;   ///< of the communicator, on this host
};

/// What messages between two ranks pass through, cheapest first: the cost class of their path.
enum class PathMedium : std::uint8_t {
  memory,   ///< memory that both processes map
  kernel,   ///< this kernel, which they do not leave
  rdma,     ///< a network whose devices write into the peer's memory
  network,  ///< a network
};

/// What the path between two ranks can do. The planner knows a path by this, never by the name of
/// its transport.
struct PathCapabilities {
  bool shares_memory = false;  ///< the ranks are on one host, and can read memory of each other
  PathMedium medium = PathMedium::network;

  friend bool operator==(const PathCapabilities&, const PathCapabilities&) = default;
};

/// A transport of one rank of one communicator. One thread at a time uses it. It must outlive the
/// connections that it opened.
class Transport {
 public:
  /// What the planner may count on; but for the links the same on every rank for the same settings.
  struct Limits {
    std::size_t slot_bytes;   ///< largest sensible slot
    std::size_t slice_bytes;  ///< of messages that pass through slots one after the other
    std::uint32_t credits;    ///< sensible number of slots
    double gbytes_per_s = 0;  ///< of this rank's links, in one direction; 0: not known
  };

  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  [[nodiscard]] virtual Limits limits() const = 0;
  /// How others reach this rank: opaque bytes that the rendezvous publishes to all ranks.
  [[nodiscard]] virtual const std::string& descriptor() const = 0;
  /// Can the two ends talk? If not, the failure says why. Symmetric: both ends give the same
  /// answer.
  [[nodiscard]] virtual Status accepts(std::string_view peer_descriptor) const = 0;
  /// What the path to a peer that it accepts can do. Symmetric.
  [[nodiscard]] virtual PathCapabilities path(std::string_view peer_descriptor) const = 0;

  /// Opens this end of a connection and returns at once. The end with the higher rank dials, the
  /// other one waits for it, whichever opens first. Call `poll` until the connection is ready or
  /// has failed.
  virtual Result<std::unique_ptr<Connection>> open(const ConnectionSpec& spec,
                                                   std::string_view peer_descriptor) = 0;
  /// Moves connecting forward: accepts peers that have dialled, finishes handshakes, drops
  /// strangers.
  virtual void poll() = 0;
};

/// Whom a transport serves. Only the ranks of the communicator know `job`: whoever connects without
/// knowing it is dropped.
struct TransportSpec {
  Rank rank = kNoRank;
  Rank size = 0;
  std::uint64_t job[2] = {0, 0};
  std::string interface;     ///< as the knob COLL_INTERFACE
  bool one_network = false;  ///< all ranks reach each other over this host's loopback
  int numa_node = -1;        ///< that all processors of the rank are of; -1: unknown, or several
  std::string gpu = {};      ///< that the rank uses, by a lasting_name; "": none
};

/// Can this rank have such a connection? Every transport gives this answer.
Status check_connection(const TransportSpec& self, const ConnectionSpec& spec);

/// Each makes the transport of its folder if it works on this machine; else the failure says why
/// not.
Result<std::unique_ptr<Transport>> make_shm_transport(const TransportSpec& spec);
Result<std::unique_ptr<Transport>> make_tcp_transport(const TransportSpec& spec);
Result<std::unique_ptr<Transport>> make_verbs_transport(const TransportSpec& spec);

/// A transport that users can name in COLL_TRANSPORTS.
struct NamedTransport {
  std::string_view name;
  Result<std::unique_ptr<Transport>> (*make)(const TransportSpec& spec);
};
/// All of them, best first.
std::span<const NamedTransport> named_transports();

}  // namespace coll
