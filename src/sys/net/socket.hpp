// SPDX-License-Identifier: Apache-2.0
// TCP sockets: listen, dial, send, receive.
#pragma once
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "sys/clock.hpp"
#include "sys/fd.hpp"
#include "sys/net/net_address.hpp"

namespace coll {

// Every socket made here is non-blocking and closed on exec and in forked children; writing to a
// dead one raises no signal.

// --- making them
/// Listens on all addresses, IPv4 and IPv6 by one socket (IPv4 alone where IPv6 is off); port 0:
/// the system chooses, see `local_address`.
Result<Fd> listen_everywhere(std::uint16_t port = 0);
/// Listens on this address only.
Result<Fd> listen_at(const NetAddress& address);
/// Does somebody wait to be accepted, on a listener of any family? Worth asking where accept(2)
/// fails for want of a descriptor: it looks for one first, and only then for a caller.
bool has_caller(int listener);
/// Who has dialled, or an empty Fd when nobody (more) waits.
Result<Fd> accept_next(int listener);
/// Starts connecting and returns at once. Fails at once where there is no way to the address.
/// `prepare` may set options that have to be there before.
Result<Fd> begin_dial(const NetAddress& address, void (*prepare)(int fd) = nullptr);
/// Connected (true), not yet (false), or why never.
Result<bool> check_dial(int fd);
/// Both in one, waiting; Code::deadline when it takes too long.
Result<Fd> dial(const NetAddress& address, Deadline deadline);

NetAddress local_address(int fd);   ///< family 0 where it has none
NetAddress remote_address(int fd);  ///< family 0 where it has none
/// Small messages leave at once. Does nothing to a socket that is not TCP.
void set_nodelay(int fd);
/// A host that vanishes closes nothing. So after `idle_s` seconds of silence the kernel asks the
/// other host, every `between_s`, and ends the connection after `questions` without an answer.
void set_keepalive(int fd, int idle_s, int between_s, int questions);

// --- moving bytes, never waiting
/// What a call moved. Exactly one holds: bytes > 0, would_block(), closed, or another error.
struct Moved {
  std::size_t bytes = 0;
  int error = 0;        ///< errno, 0 without one
  bool closed = false;  ///< the peer will send nothing more
  [[nodiscard]] bool would_block() const;
};

Moved send_some(int fd, std::span<const std::byte> from);
Moved recv_some(int fd, std::span<std::byte> into);
/// The same for several pieces in one system call.
Moved send_some(int fd, std::span<const iovec> pieces);
Moved recv_some(int fd, std::span<const iovec> pieces);

/// Waits for poll(2) `events` on the socket: true, or false when the deadline passes first.
Result<bool> wait_for(int fd, short events, Deadline deadline);

}  // namespace coll
