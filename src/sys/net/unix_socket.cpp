// SPDX-License-Identifier: Apache-2.0
// Unix sockets that pass descriptors.
#include "sys/net/unix_socket.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sys/net/net_interfaces.hpp"
#include "sys/net/socket.hpp"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71  // <asm-generic/socket.h> of Linux 5.14
#endif

namespace coll {
namespace {

/// An abstract address: a zero byte, then the name.
struct SocketName {
  explicit SocketName(std::string_view name) {
    COLL_CHECK(name.size() <= 100, "the name of a Unix socket is too long");
    value.sun_family = AF_UNIX;
    std::memcpy(value.sun_path + 1, name.data(), name.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }

  sockaddr_un value{};
  socklen_t size = 0;
};

/// Room for the descriptors of one packet. A stranger may pass more; the kernel drops what does not
/// fit.
struct alignas(cmsghdr) Control {
  std::array<char, CMSG_SPACE(kMostPassed * sizeof(int))> bytes{};
};

Result<Fd> make_socket() {
  Fd fd = Fd::kept_from_children(
      [] { return ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
  if (!fd) return system_failure("socket(AF_UNIX)", errno);
  return fd;
}

bool is_later(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}
bool is_gone(int error) {
  return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

Status lost(int error) {
  return failed(Code::peer_lost, "the other end of a Unix socket is closed", {}, error);
}

}  // namespace

Result<Fd> unix_listen(std::string_view name) {
  COLL_ASSIGN(Fd fd, make_socket());
  const SocketName address(name);
  if (::bind(fd.get(), address.get(), address.size) != 0)
    return system_failure("bind of the abstract Unix socket " + std::string(name), errno);
  if (::listen(fd.get(), SOMAXCONN) != 0)
    return system_failure("listen on the abstract Unix socket " + std::string(name), errno);
  return fd;
}

Result<std::optional<Fd>> unix_dial(std::string_view name) {
  COLL_ASSIGN(Fd fd, make_socket());
  const SocketName address(name);
  if (::connect(fd.get(), address.get(), address.size) == 0)
    return std::optional<Fd>(std::move(fd));
  if (is_later(errno)) return std::optional<Fd>();
  return failed(Code::unreachable, "connect to the abstract Unix socket " + std::string(name),
                "the peer has ended, or lives in another network namespace of this host", errno);
}

Result<std::optional<Fd>> unix_accept(const Fd& listener) {
  Fd fd = Fd::kept_from_children(
      [&] { return ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  if (fd) {
    return std::optional<Fd>(std::move(fd));
  }
  const int error = errno;
  if (is_later(error) || error == ECONNABORTED) return std::optional<Fd>();
  if ((error == EMFILE || error == ENFILE) && !has_caller(listener.get()))
    return std::optional<Fd>();
  return system_failure("accept on a Unix socket", error);
}

Result<std::string> unix_network_of(const Fd& socket) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) == 0)
    return std::to_string(cookie);
  std::string network = thread_network();
  if (network.empty())
    return failed(Code::unsupported, "cannot read /proc/thread-self/ns/net",
                  "without it ranks of one host cannot tell whether they reach each other; mount "
                  "/proc",
                  errno);
  return network;
}

Result<unsigned> unix_peer_user(const Fd& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return system_failure("getsockopt(SO_PEERCRED)", errno);
  return static_cast<unsigned>(peer.uid);
}

Result<bool> unix_send(const Fd& socket, std::span<const std::byte> packet,
                       std::initializer_list<int> passed) {
  iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
  Control control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  std::array<int, kMostPassed> given{};
  const auto end = std::ranges::copy_if(passed, given.begin(), [](int fd) { return fd >= 0; }).out;
  const std::size_t bytes = static_cast<std::size_t>(end - given.begin()) * sizeof(int);
  if (bytes > 0) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), given.data(), bytes);
  }
  if (::sendmsg(socket.get(), &message, MSG_NOSIGNAL) >= 0) return true;
  if (is_later(errno)) return false;
  if (is_gone(errno)) return lost(errno);
  return system_failure("sendmsg on a Unix socket", errno);
}

Result<std::optional<UnixPacket>> unix_receive(const Fd& socket, std::span<std::byte> into) {
  iovec part{into.data(), into.size()};
  Control control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t bytes = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_TRUNC);
  if (bytes == 0 && message.msg_controllen == 0) {
    // The kernel looks for a packet first and for the end then (unix_dgram_recvmsg in
    // net/unix/af_unix.c): both may have come in between. What was sent is there by now.
    message.msg_controllen = control.bytes.size();
    bytes = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_TRUNC);
  }
  if (bytes < 0) {
    if (is_later(errno)) return std::optional<UnixPacket>();
    if (is_gone(errno)) return lost(errno);
    return system_failure("recvmsg on a Unix socket", errno);
  }
  UnixPacket packet;
  packet.bytes = static_cast<std::size_t>(bytes);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    std::size_t taken = 0;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int passed = -1;
      std::memcpy(&passed, CMSG_DATA(header) + at, sizeof passed);
      Fd owned(passed);
      if (taken < kMostPassed) packet.passed[taken++] = std::move(owned);
    }
  }
  packet.passed_lost = (message.msg_flags & MSG_CTRUNC) != 0;
  // An empty packet and the end look the same; nobody here sends empty packets.
  if (bytes == 0 && !packet.passed[0]) return lost(0);
  return std::optional<UnixPacket>(std::move(packet));
}

}  // namespace coll
