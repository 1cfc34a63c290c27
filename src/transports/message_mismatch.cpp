// SPDX-License-Identifier: Apache-2.0
// The failure of a message that belongs to another call.
#include <cinttypes>
#include <cstdio>

#include "transports/transport.hpp"

namespace coll {
namespace {

std::string describe(std::size_t bytes, std::uint64_t digest) {
  char text[64];
  std::snprintf(text, sizeof text, "%zu bytes of call %016" PRIx64, bytes, digest);
  return text;
}

}  // namespace

Status message_mismatch(Rank peer, std::size_t expected_bytes, std::uint64_t expected_digest,
                        std::size_t bytes, std::uint64_t digest) {
  return failed(Code::mismatch,
                "rank " + std::to_string(peer) + " sent " + describe(bytes, digest) +
                    ", expected " + describe(expected_bytes, expected_digest),
                "all ranks must make the same calls, with the same arguments, in the same order")
      .at_rank(peer);
}

}  // namespace coll
