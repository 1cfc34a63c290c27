// SPDX-License-Identifier: Apache-2.0
// One port, listened on at chosen addresses.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "sys/fd.hpp"
#include "sys/net/net_address.hpp"

namespace coll {

/// Sockets that listen on one port, each at one address; what comes to others is refused by the
/// system.
class Listeners {
 public:
  Listeners() = default;
  /// Listens at these addresses (their ports do not matter), or, if there is none, at all of this
  /// host. An address that has gone or whose family is switched off is left out, unless all are.
  /// Port 0: the system chooses.
  static Result<Listeners> open(const std::vector<NetAddress>& addresses, std::uint16_t port = 0);

  explicit operator bool() const { return !sockets_.empty(); }
  /// For poll(2): readable while somebody waits to be accepted.
  [[nodiscard]] int fd() const { return ready_ ? ready_.get() : sockets_.front().get(); }
  [[nodiscard]] const std::vector<Fd>& sockets() const { return sockets_; }
  [[nodiscard]] std::uint16_t port() const;
  /// With the port. One of no host: all addresses of this host.
  [[nodiscard]] std::vector<NetAddress> addresses() const;
  /// "10.0.0.1:29500, 10.1.0.1:29500", "all addresses, port 29500"
  [[nodiscard]] std::string text() const;
  /// Can other hosts reach it?
  [[nodiscard]] bool beyond_loopback() const;
  /// As `accept_next`: who has dialled, or an empty Fd when nobody (more) waits.
  Result<Fd> accept();

 private:
  Status listen_at_each(const std::vector<NetAddress>& addresses, std::uint16_t port);

  std::vector<Fd> sockets_;
  Fd ready_;               ///< epoll over the sockets, if they are several
  std::size_t first_ = 0;  ///< whose turn it is to be asked first
};

}  // namespace coll
