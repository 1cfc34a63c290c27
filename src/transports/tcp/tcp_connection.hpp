// SPDX-License-Identifier: Apache-2.0
// One end of a TCP connection.
#pragma once
#include <sys/uio.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "transports/dial/dial.hpp"
#include "transports/tcp/tcp_progress.hpp"
#include "transports/tcp/tcp_slots.hpp"

namespace coll {

/// A message on the wire: this header, then the payload. Small ones cost one system call at either
/// end; long ones go from and into the caller's memory. They come into a slot of this end when the
/// caller has not asked for them while their sender waits, and part by part when it combines them.
class TcpConnection final : public Connection {
 public:
  /// Connections that are not yet ready; each takes itself out when it ends.
  using Waiting = std::vector<TcpConnection*>;

  TcpConnection(const ConnectionSpec& spec, std::unique_ptr<DialledEnd> end, Waiting& waiting,
                TcpProgress& progress);
  ~TcpConnection() override;

  std::byte* acquire(std::size_t bytes) override;
  void commit(std::size_t bytes, std::uint64_t digest) override;
  bool send(const std::byte* data, std::size_t bytes, std::uint64_t digest) override;
  [[nodiscard]] Mark mark() const override { return out_.pushed(); }
  bool flushed(Mark mark) override;

  const std::byte* peek(std::size_t bytes, std::uint64_t digest) override;
  const std::byte* peek_part(std::size_t begin, std::size_t part, std::size_t bytes,
                             std::uint64_t digest, std::byte* room) override;
  void release() override;
  bool receive(std::byte* into, std::size_t bytes, std::uint64_t digest) override;

  [[nodiscard]] bool ready() const override { return static_cast<bool>(socket_); }
  [[nodiscard]] ProgressSource* progress_source() override { return &progress_; }

  // --- for the transport, before it is ready
  /// Takes the socket, or the failure, once there is either.
  void poll_dialled();

  // --- for the transport's progress, once it is ready
  [[nodiscard]] int socket() const { return socket_.get(); }
  /// Whether its socket is in the epoll set. False: it was so before.
  bool watch(bool on);
  /// Takes what came into slots, whatever is known of news.
  void look();
  /// Sends what waits; false: not all of it.
  bool push();
  /// The socket has news; `over` if they may be the end of what the peer sends. False: there was
  /// other news that is not yet taken.
  bool take_note(bool over);
  /// Takes what came into slots; false if there may be more than they hold.
  bool drained();
  /// Fails if the peer's host no longer answers.
  void notice_silence();

 private:
  struct Header {
    std::uint64_t bytes = 0;
    std::uint64_t digest = 0;
    std::array<std::uint64_t, 6> unused{};  // zeros on the wire
  };
  static_assert(sizeof(Header) == TcpSlots::kHeaderBytes);
  /// Where the payload of the message that is coming in goes.
  enum class Target {
    none,
    slot,
    parts,  ///< part by part, as the caller asks for them
    caller,
  };

  static constexpr std::size_t kAheadBytes = 16384;  // read at once for the sake of small messages
  static constexpr std::uint32_t kAskedOften = 64;
  /// Up to here one more copy costs less than a piece of its own in a system call.
  static constexpr std::size_t kSmallBytes = 4096;

  bool awaits_room();
  bool push_slots();
  bool took(const Moved& moved);
  void drain();
  bool read_header(std::byte* into = nullptr, std::size_t expected = 0);
  bool read_payload(std::byte* into) { return read_payload(into, 0, header_.bytes); }
  bool read_payload(std::byte* into, std::size_t begin, std::size_t end);
  [[nodiscard]] std::size_t more_behind(std::size_t end) const;
  void end_message();
  bool pull(std::span<const iovec> pieces, std::size_t& bytes);
  bool matches(const Header& header, std::size_t bytes, std::uint64_t digest);
  void not_there();
  void lost(int error);

  ConnectionSpec spec_;
  std::unique_ptr<DialledEnd> end_;
  Waiting& waiting_;
  TcpProgress& progress_;
  std::uint32_t vain_round_ = 0;  ///< the last round in which it was tried in vain
  Fd socket_;
  NetAddress remote_;

  // sending: slots first, then the caller's memory
  TcpSlots out_;
  std::size_t out_sent_ = 0;     // bytes of the first slot's message that the kernel has
  std::size_t direct_sent_ = 0;  // the same of the message sent from the caller's memory
  // receiving: [begin, end) of ahead_ are bytes that belong to no message yet
  TcpSlots in_;
  std::unique_ptr<std::byte[]> ahead_;
  std::size_t ahead_begin_ = 0;
  std::size_t ahead_end_ = 0;
  Target target_ = Target::none;
  bool have_header_ = false;
  Header header_;
  std::size_t got_ = 0;
  std::size_t whole_ = 0;  // so much came into the slot before the caller asked for parts
  bool ended_ = false;     // the peer's stream is over; what came before may still be taken
  int end_error_ = 0;      // … because of this errno, 0 for an orderly end
  // what the last tries met, and no news has come since
  bool no_room_ = false;  // the kernel took not all that was to be sent
  bool empty_ = false;    // the kernel had nothing (more) to read
  // for the transport's progress
  bool watched_ = false;
  std::uint32_t asked_ = 0;  // so often something came by asking, though it is watched
  bool hung_up_ = false;     // the end of the peer's stream may be there
  bool unsent_ = false;      // in its list of these
  bool unread_ = false;      // in its list of these
};

}  // namespace coll
