// SPDX-License-Identifier: Apache-2.0
// transports/tcp/: messages over TCP sockets. This file: greetings made, read and judged.
#include "transports/tcp/tcp_handshake.hpp"

#include "sys/socket.hpp"
#include "transports/tcp/tcp_descriptor.hpp"

namespace coll {

TcpGreeting tcp_greeting(const TransportSpec& self, const ConnectionSpec& connection,
                         TcpGreeting::Verdict verdict) {
  TcpGreeting greeting;
  greeting.version = kTcpWireVersion;
  greeting.verdict = verdict;
  greeting.job[0] = self.job[0];
  greeting.job[1] = self.job[1];
  greeting.from = self.rank;
  greeting.to = connection.peer;
  greeting.lane = connection.lane;
  greeting.credits = connection.credits;
  greeting.slot_bytes = connection.slot_bytes;
  return greeting;
}

std::string tcp_stranger(const TcpGreeting& greeting, const TransportSpec& self) {
  if (greeting.magic != TcpGreeting::kMagic) return "it speaks another language";
  if (greeting.job[0] != self.job[0] || greeting.job[1] != self.job[1]) {
    return "it belongs to another job";
  }
  if (greeting.to != self.rank || greeting.from < 0 || greeting.from >= self.size ||
      greeting.from == self.rank) {
    return "it is rank " + std::to_string(greeting.from) + " looking for rank " +
           std::to_string(greeting.to);
  }
  return {};
}

Status tcp_agree(const TcpGreeting& theirs, const ConnectionSpec& mine) {
  if (theirs.version != kTcpWireVersion) {
    return failed(Code::mismatch,
                  "tcp wire versions differ: " + std::to_string(kTcpWireVersion) + " here, " +
                      std::to_string(theirs.version) + " on rank " + std::to_string(mine.peer),
                  "run the same version of the library on all ranks")
        .at_rank(mine.peer);
  }
  if (theirs.slot_bytes != mine.slot_bytes || theirs.credits != mine.credits) {
    const auto slots = [](auto credits, auto bytes) {
      return std::to_string(credits) + " slots of " + std::to_string(bytes) + " bytes";
    };
    return failed(Code::mismatch,
                  "the ends of lane " + std::to_string(mine.lane) +
                      " differ: " + slots(mine.credits, mine.slot_bytes) + " here, " +
                      slots(theirs.credits, theirs.slot_bytes) + " on rank " +
                      std::to_string(mine.peer),
                  "set COLL_CREDITS and COLL_SLICE_BYTES alike on all ranks")
        .at_rank(mine.peer);
  }
  return {};
}

TcpGreetingReader::State TcpGreetingReader::read(int fd) {
  auto into = std::as_writable_bytes(std::span(&greeting_, 1));
  while (have_ < into.size()) {
    const Moved moved = recv_some(fd, into.subspan(have_));
    have_ += moved.bytes;
    if (moved.bytes > 0) {
      // Whoever does not even begin like a greeting need not be waited for.
      if (have_ >= sizeof greeting_.magic && greeting_.magic != TcpGreeting::kMagic) {
        return State::complete;
      }
      continue;
    }
    if (moved.would_block()) return State::incomplete;
    error_ = moved.error;
    return State::closed;
  }
  return State::complete;
}

}  // namespace coll
