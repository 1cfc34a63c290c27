// SPDX-License-Identifier: Apache-2.0
// The system calls behind the sockets.
#include "sys/net/socket.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace coll {
namespace {

constexpr int kBacklog = 4096;  // the system cuts it to net.core.somaxconn

Result<Fd> make_socket(int family) {
  Fd fd = Fd::kept_from_children(
      [&] { return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
  if (!fd) return system_failure("making a TCP socket", errno);
  return fd;
}

Moved moved(ssize_t result, bool receiving) {
  if (result > 0) return {static_cast<std::size_t>(result), 0, false};
  if (result == 0) return {0, 0, receiving};
  return {0, errno, false};
}

Result<Fd> listen_on(const NetAddress& address, bool dual) {
  COLL_ASSIGN(Fd fd, make_socket(address.family()));
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.family() == AF_INET6) {
    const int only = dual ? 0 : 1;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
  }
  const NetAddress::Raw raw = address.raw();
  if (::bind(fd.get(), raw.get(), raw.size) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    return system_failure("listening on " + address.text(), error,
                          error == EADDRINUSE      ? "another process has this port; choose another"
                          : error == EADDRNOTAVAIL ? "this host does not have this address"
                                                   : "");
  }
  return fd;
}

}  // namespace

bool Moved::would_block() const {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

Result<Fd> listen_everywhere(std::uint16_t port) {
  Result<Fd> both = listen_on(NetAddress::any(AF_INET6, port), true);
  if (both.ok()) return both;
  const int error = both.status().failure()->error;
  if (error != EAFNOSUPPORT && error != EADDRNOTAVAIL) return both;
  return listen_on(NetAddress::any(AF_INET, port), false);
}

Result<Fd> listen_at(const NetAddress& address) {
  return listen_on(address, false);
}

bool has_caller(int listener) {
  pollfd one{listener, POLLIN, 0};
  return ::poll(&one, 1, 0) != 0;
}

Result<Fd> accept_next(int listener) {
  for (;;) {
    Fd fd = Fd::kept_from_children(
        [&] { return ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
    if (fd) return fd;
    // These say that the one who dialled is gone again, or that the network hiccuped for it.
    const int error = errno;
    switch (error) {
      case EAGAIN:
        return Fd();
      case EMFILE:
      case ENFILE:
        if (!has_caller(listener)) return Fd();
        return system_failure("accepting a connection", error);
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case ENETDOWN:
      case ENOPROTOOPT:
      case EHOSTDOWN:
      case ENONET:
      case EHOSTUNREACH:
      case ENETUNREACH:
      case EPERM:
        continue;
      default:
        return system_failure("accepting a connection", error);
    }
  }
}

Result<Fd> begin_dial(const NetAddress& address, void (*prepare)(int fd)) {
  COLL_ASSIGN(Fd fd, make_socket(address.family()));
  if (prepare != nullptr) prepare(fd.get());
  const NetAddress::Raw raw = address.raw();
  if (::connect(fd.get(), raw.get(), raw.size) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return system_failure("connecting to " + address.text(), errno);
  }
  return fd;
}

Result<bool> check_dial(int fd) {
  pollfd one{fd, POLLOUT, 0};
  int ready = 0;
  do {
    ready = ::poll(&one, 1, 0);
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return system_failure("looking at a connecting socket", errno);
  if (ready == 0) return false;
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return system_failure("connecting", error);
  return true;
}

Result<Fd> dial(const NetAddress& address, Deadline deadline) {
  COLL_ASSIGN(Fd fd, begin_dial(address));
  COLL_ASSIGN(const bool answered, wait_for(fd.get(), POLLOUT, deadline));
  if (!answered) {
    return failed(Code::deadline, "connecting to " + address.text() + ": no answer in time");
  }
  const Result<bool> connected = check_dial(fd.get());
  if (!connected.ok()) {
    return system_failure("connecting to " + address.text(), connected.status().failure()->error);
  }
  return fd;
}

NetAddress local_address(int fd) {
  sockaddr_storage raw{};
  socklen_t size = sizeof raw;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&raw), &size) != 0) return {};
  return NetAddress::from_raw(reinterpret_cast<sockaddr*>(&raw));
}

NetAddress remote_address(int fd) {
  sockaddr_storage raw{};
  socklen_t size = sizeof raw;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&raw), &size) != 0) return {};
  return NetAddress::from_raw(reinterpret_cast<sockaddr*>(&raw));
}

void set_nodelay(int fd) {
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void set_keepalive(int fd, int idle_s, int between_s, int questions) {
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &questions, sizeof questions);
}

Moved send_some(int fd, std::span<const std::byte> from) {
  return moved(::send(fd, from.data(), from.size(), MSG_DONTWAIT | MSG_NOSIGNAL), false);
}

Moved recv_some(int fd, std::span<std::byte> into) {
  return moved(::recv(fd, into.data(), into.size(), MSG_DONTWAIT), true);
}

Moved send_some(int fd, std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return moved(::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL), false);
}

Moved recv_some(int fd, std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return moved(::recvmsg(fd, &message, MSG_DONTWAIT), true);
}

Result<bool> wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd one{fd, events, 0};
    const int ready = ::poll(&one, 1, poll_timeout(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return system_failure("waiting for a socket", errno);
    if (deadline != Deadline::max() && Clock::now() >= deadline) return false;
  }
}

}  // namespace coll
