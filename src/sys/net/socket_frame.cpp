// SPDX-License-Identifier: Apache-2.0
// Frames sent and received by poll(2).
#include "sys/net/socket_frame.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <vector>

#include "sys/net/socket.hpp"

namespace coll {
namespace {

/// The peer's name for messages; a socket without one (a pair) is "the peer".
std::string who(int fd) {
  const NetAddress peer = remote_address(fd);
  return peer.family() != 0 ? peer.text() : "the peer";
}

/// One try moved nothing: waits until another makes sense, or says why not.
Status wait_again(int fd, const Moved& moved, short events, Deadline deadline, const char* doing) {
  if (moved.closed || moved.error == ECONNRESET || moved.error == EPIPE) {
    return failed(Code::peer_lost, doing + who(fd) + ": it closed the connection", {}, moved.error);
  }
  if (!moved.would_block()) return system_failure(doing + who(fd), moved.error);
  COLL_ASSIGN(const bool ready, wait_for(fd, events, deadline));
  if (ready) return {};
  return failed(Code::deadline, doing + who(fd) + ": nothing moves");
}

Status recv_all(int fd, std::span<std::byte> into, Deadline deadline) {
  while (!into.empty()) {
    const Moved moved = recv_some(fd, into);
    if (moved.bytes == 0) COLL_TRY(wait_again(fd, moved, POLLIN, deadline, "receiving from "));
    into = into.subspan(moved.bytes);
  }
  return {};
}

}  // namespace

Status send_frame(int fd, std::string_view text, Deadline deadline) {
  if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
    return failed(Code::invalid_argument,
                  "a frame of " + std::to_string(text.size()) + " bytes is too long");
  }
  const auto size = static_cast<std::uint32_t>(text.size());
  std::string frame;
  frame.reserve(4 + text.size());
  for (unsigned i = 0; i < 4; ++i) frame += static_cast<char>((size >> (8 * i)) & 0xff);
  frame += text;
  auto left = std::as_bytes(std::span(frame));
  while (!left.empty()) {
    const Moved moved = send_some(fd, left);
    if (moved.bytes == 0) COLL_TRY(wait_again(fd, moved, POLLOUT, deadline, "sending to "));
    left = left.subspan(moved.bytes);
  }
  return {};
}

Result<std::string> recv_frame(int fd, std::size_t limit, Deadline deadline) {
  std::array<std::byte, 4> head{};
  COLL_TRY(recv_all(fd, head, deadline));
  std::size_t size = 0;
  for (unsigned i = 0; i < 4; ++i) size |= std::to_integer<std::size_t>(head[i]) << (8 * i);
  if (size > limit) {
    return failed(Code::mismatch, "receiving from " + who(fd) + ": a frame of " +
                                      std::to_string(size) + " bytes, at most " +
                                      std::to_string(limit) + " make sense");
  }
  // Grows with what really comes, so that a stranger's length costs nothing.
  std::string text;
  while (text.size() < size) {
    const std::size_t have = text.size();
    text.resize(std::min(size, have + 65536));
    COLL_TRY(recv_all(fd, std::as_writable_bytes(std::span(text)).subspan(have), deadline));
  }
  return text;
}

}  // namespace coll
