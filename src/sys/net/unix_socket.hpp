// SPDX-License-Identifier: Apache-2.0
// Unix sockets that pass descriptors.
#pragma once
#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "sys/fd.hpp"

namespace coll {

// Sockets of packets (SOCK_SEQPACKET) in the abstract namespace: a packet arrives whole or not at
// all, and a name leaves nothing behind in a file system. All are non-blocking and close-on-exec.

/// Listens under `name` (no leading zero byte, at most 100 characters).
Result<Fd> unix_listen(std::string_view name);

/// Connects to the listener `name`. None: its queue is full, try again. Code::unreachable: nobody
/// listens under the name in this network namespace, or the kernel forbids it.
Result<std::optional<Fd>> unix_dial(std::string_view name);

/// The next caller, or none.
Result<std::optional<Fd>> unix_accept(const Fd& listener);

/// A text for the network namespace of the socket, which no other namespace of this boot has.
/// Before Linux 5.14 it is the calling thread's, so ask in the thread that made the socket.
Result<std::string> unix_network_of(const Fd& socket);

/// The effective user id of the process at the other end.
Result<unsigned> unix_peer_user(const Fd& socket);

/// Most descriptors that one packet passes.
inline constexpr std::size_t kMostPassed = 2;

/// Sends one packet, and descriptors with it (those that are none are left out). False: not now,
/// try again. Code::peer_lost: the other end is closed.
Result<bool> unix_send(const Fd& socket, std::span<const std::byte> packet,
                       std::initializer_list<int> passed = {});

struct UnixPacket {
  std::size_t bytes = 0;  ///< its true length, also where it is longer than the place for it
  std::array<Fd, kMostPassed> passed;  ///< the descriptors that came with it
  bool passed_lost = false;            ///< some came, but this process may open no more files
};

/// Receives one packet into `into`; none: there is none yet. Code::peer_lost: the other end is
/// closed.
Result<std::optional<UnixPacket>> unix_receive(const Fd& socket, std::span<std::byte> into);

}  // namespace coll
