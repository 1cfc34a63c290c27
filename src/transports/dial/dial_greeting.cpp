// SPDX-License-Identifier: Apache-2.0
// Greetings made, read and judged.
#include "transports/dial/dial_greeting.hpp"

#include <algorithm>
#include <span>

#include "sys/net/socket.hpp"

namespace coll {
namespace {

template <class Value>
std::string_view bytes_in(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

DialProof dial_proof(DialGreeting greeting, DialWire wire, const TransportSpec& self,
                     const DialNonce& nonce) {
  greeting.proof = {};
  const std::string made =
      prove(bytes_in(self.job), std::string(wire.name) + std::string(bytes_in(nonce)) +
                                    std::string(bytes_in(greeting)));
  std::ranges::copy(made, greeting.proof.begin());
  return greeting.proof;
}

Result<DialGreeting> dial_challenge(DialWire wire) {
  COLL_ASSIGN(const std::string nonce, random_bytes(kNonceBytes));
  DialGreeting greeting;
  greeting.version = wire.version;
  greeting.verdict = DialGreeting::Verdict::challenge;
  std::ranges::copy(nonce, greeting.nonce.begin());
  return greeting;
}

DialGreeting dial_greeting(DialWire wire, const TransportSpec& self,
                           const ConnectionSpec& connection, const DialOffer& offer,
                           DialGreeting::Verdict verdict, const DialNonce& mine,
                           const DialNonce& theirs) {
  DialGreeting greeting;
  greeting.version = wire.version;
  greeting.verdict = verdict;
  greeting.from = self.rank;
  greeting.to = connection.peer;
  greeting.lane = connection.lane;
  greeting.credits = connection.credits;
  greeting.slot_bytes = connection.slot_bytes;
  greeting.nonce = mine;
  greeting.offer = offer;
  greeting.proof = dial_proof(greeting, wire, self, theirs);
  return greeting;
}

std::string dial_stranger(const DialGreeting& greeting, DialWire wire, const TransportSpec& self,
                          const DialNonce& sent) {
  if (greeting.magic != DialGreeting::kMagic) return "it speaks another language";
  if (!same_proof(bytes_in(greeting.proof), bytes_in(dial_proof(greeting, wire, self, sent)))) {
    return "it does not know this job";
  }
  if (greeting.to != self.rank || greeting.from < 0 || greeting.from >= self.size ||
      greeting.from == self.rank) {
    return "it is rank " + std::to_string(greeting.from) + " looking for rank " +
           std::to_string(greeting.to);
  }
  return {};
}

Status dial_agree(const DialGreeting& theirs, DialWire wire, const ConnectionSpec& mine) {
  if (theirs.version != wire.version) {
    return failed(Code::mismatch,
                  std::string(wire.name) +
                      " wire versions differ: " + std::to_string(wire.version) + " here, " +
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

Status dial_send(int fd, const DialGreeting& greeting) {
  const Moved sent = send_some(fd, std::as_bytes(std::span(&greeting, 1)));
  return sent.bytes == sizeof greeting ? Status() : system_failure("greeting", sent.error);
}

DialGreetingReader::State DialGreetingReader::read(int fd) {
  auto into = std::as_writable_bytes(std::span(&greeting_, 1));
  while (have_ < into.size()) {
    const Moved moved = recv_some(fd, into.subspan(have_));
    have_ += moved.bytes;
    if (moved.bytes > 0) {
      // Whoever does not even begin like a greeting need not be waited for.
      if (have_ >= sizeof greeting_.magic && greeting_.magic != DialGreeting::kMagic) {
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
