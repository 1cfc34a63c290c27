// SPDX-License-Identifier: Apache-2.0
// Whole texts over a stream socket, each with its length.
#pragma once
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "sys/clock.hpp"

namespace coll {

// For control traffic, not for speed: 4 bytes of length (little endian), then the text. Both wait,
// on a blocking socket as on a non-blocking one, TCP or not, and never longer than the deadline
// (Code::deadline). A peer that closes: Code::peer_lost.

Status send_frame(int fd, std::string_view text, Deadline deadline);
/// A length above `limit` is refused unread (Code::mismatch): what is there speaks another
/// language.
Result<std::string> recv_frame(int fd, std::size_t limit, Deadline deadline);

}  // namespace coll
