// SPDX-License-Identifier: Apache-2.0
// Greetings made, read and judged.
#include "transports/tcp/tcp_handshake.hpp"

#include <algorithm>
#include <span>

#include "sys/net/socket.hpp"
#include "transports/tcp/tcp_descriptor.hpp"

namespace coll {
namespace {

template <class Value>
std::string_view bytes_in(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

TcpProof tcp_proof(TcpGreeting greeting, const TransportSpec& self, const TcpNonce& nonce) {
  greeting.proof = {};
  const std::string made = prove(
      bytes_in(self.job), "tcp" + std::string(bytes_in(nonce)) + std::string(bytes_in(greeting)));
  std::ranges::copy(made, greeting.proof.begin());
  return greeting.proof;
}

Result<TcpGreeting> tcp_challenge() {
  COLL_ASSIGN(const std::string nonce, random_bytes(kNonceBytes));
  TcpGreeting greeting;
  greeting.version = kTcpWireVersion;
  greeting.verdict = TcpGreeting::Verdict::challenge;
  std::ranges::copy(nonce, greeting.nonce.begin());
  return greeting;
}

TcpGreeting tcp_greeting(const TransportSpec& self, const ConnectionSpec& connection,
                         TcpGreeting::Verdict verdict, const TcpNonce& mine,
                         const TcpNonce& theirs) {
  TcpGreeting greeting;
  greeting.version = kTcpWireVersion;
  greeting.verdict = verdict;
  greeting.from = self.rank;
  greeting.to = connection.peer;
  greeting.lane = connection.lane;
  greeting.credits = connection.credits;
  greeting.slot_bytes = connection.slot_bytes;
  greeting.nonce = mine;
  greeting.proof = tcp_proof(greeting, self, theirs);
  return greeting;
}

std::string tcp_stranger(const TcpGreeting& greeting, const TransportSpec& self,
                         const TcpNonce& sent) {
  if (greeting.magic != TcpGreeting::kMagic) return "it speaks another language";
  if (!same_proof(bytes_in(greeting.proof), bytes_in(tcp_proof(greeting, self, sent)))) {
    return "it does not know this job";
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

Status tcp_send(int fd, const TcpGreeting& greeting) {
  const Moved sent = send_some(fd, std::as_bytes(std::span(&greeting, 1)));
  return sent.bytes == sizeof greeting ? Status() : system_failure("greeting", sent.error);
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
