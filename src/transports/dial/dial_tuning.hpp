// SPDX-License-Identifier: Apache-2.0
// The socket options, and why they are set.
#pragma once

namespace coll {

/// Tunes a listener, or a socket that is not connected yet. Where the system's congestion control
/// is bbr, it takes cubic or else reno: bbr is good at long paths, but paces short ones, and once
/// it has begun on a socket its pacing stays. Measured over a veth, with bbr, reno, and reno after
/// bbr: 16 MiB at 2.5, 8.6 and 8.6 GB/s, half a round trip of 64 KiB in 31, 15.4 and 20 us; over
/// loopback 16 MiB at 6.0 (bbr) and 8.7 GB/s (reno). Buffer sizes are left to the system: fixed
/// ones gained nothing.
void tune_dialling(int fd);
/// Tunes a connected socket. Small messages leave at once; a silent host is noticed (keepalive); a
/// path whose round trip takes more than 5 ms gets the system's congestion control back.
void tune_connected(int fd);

/// Has the other host stopped answering (30 s, several tries)? A peer that merely does not read,
/// for however long, still answers; TCP_USER_TIMEOUT would not tell them apart.
bool host_silent(int fd);

}  // namespace coll
