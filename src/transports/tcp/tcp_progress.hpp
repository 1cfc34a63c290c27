// SPDX-License-Identifier: Apache-2.0
// Which of a transport's TCP connections have news, from one epoll set.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sys/fd.hpp"
#include "transports/transport.hpp"

namespace coll {

class TcpConnection;

/// Two ways to learn of news. While callers try few connections in vain, each try asks the kernel:
/// a message then costs one system call. When they try many, one epoll_wait(2) asks for all of
/// them, and a connection without news answers without a system call. Connections that nobody tries
/// are looked at too, since their peers may wait for room.
///
/// The set is edge-triggered. While a socket is in it, each message costs the kernel 0.2 us more.
/// So a socket is put in for the first nap, or where there are many, and taken out again once many
/// messages were received by asking it.
class TcpProgress final : public ProgressSource {
 public:
  // --- for who waits
  void progress() override;
  bool has_news() override;
  [[nodiscard]] int wait_fd() const override { return without_epoll_ ? -1 : epoll_.get(); }

  // --- for the connections
  void add(TcpConnection& connection);
  void remove(TcpConnection& connection);
  /// Many messages came by asking the connection's own socket.
  void unwatch(TcpConnection& connection);
  /// The connection has bytes to send that the kernel did not take.
  void note_unsent(TcpConnection& connection) { unsent_.push_back(&connection); }
  /// The caller has tried a connection in vain; `round` is the connection's own.
  void note_vain(std::uint32_t& round) {
    if (std::exchange(round, rounds_) != rounds_) ++vain_;
  }
  /// Does only epoll say that a connection has news?
  [[nodiscard]] bool by_news() const { return by_news_; }

 private:
  static constexpr std::size_t kFew = 4;              ///< connections tried in vain in one round
  static constexpr std::uint32_t kRoundsToLook = 64;  ///< between looks at what nobody tries

  bool watch_all();
  bool take_news();
  void notice_silence();

  Fd epoll_;                               ///< made for the first connection
  bool without_epoll_ = false;             ///< the system lets in no more sockets
  std::vector<TcpConnection*> all_;        ///< ready ones
  std::vector<TcpConnection*> unwatched_;  ///< not in the set
  std::vector<TcpConnection*> unread_;     ///< may have more for us than they had slots for
  std::vector<TcpConnection*> unsent_;
  std::size_t vain_ = 0;      ///< connections tried in vain in this round
  std::uint32_t rounds_ = 1;  ///< of asking for progress
  bool by_news_ = false;
  bool fresh_ = false;  ///< the last round took news that nobody has tried to use yet
  std::uint64_t silence_check_ns_ = 0;
};

}  // namespace coll
