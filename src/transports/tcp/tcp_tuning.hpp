// SPDX-License-Identifier: Apache-2.0
// transports/tcp/: messages over TCP sockets. This file: the socket options, and why.
#pragma once

namespace coll {

/// On a listener or a socket not yet connected. If the system's congestion control is bbr, takes
/// cubic or else reno for now: once bbr has begun on a socket its pacing stays for good.
void tcp_tune_early(int fd);
/// On a connected one. Small messages leave at once; a silent host is noticed (keepalive). Over a
/// round trip longer than 1 ms the system's congestion control is put back: bbr is good at long
/// paths, but paces short ones (loopback, veth, a rack) to a third of their speed, measured.
void tcp_tune_connected(int fd);

/// Has the other host stopped answering (30 s, several tries)? A peer that merely does not read,
/// for however long, still answers; TCP_USER_TIMEOUT would not tell them apart.
bool tcp_host_silent(int fd);

}  // namespace coll
