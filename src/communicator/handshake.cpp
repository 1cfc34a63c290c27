// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: the words of the meeting, packed and read.
#include "communicator/handshake.hpp"

#include <unistd.h>

#include "communicator/control_message.hpp"
#include "sys/net_interfaces.hpp"

namespace coll {
namespace {

constexpr std::string_view kMagic = "collrdv";

MessageWriter begin(Word word) {
  MessageWriter message;
  message.u8(static_cast<std::uint8_t>(word)).raw(kMagic);
  return message;
}

/// A reader behind the head of a frame that must be this word.
std::optional<MessageReader> open(std::string_view frame, Word word) {
  if (word_of(frame) != word) return std::nullopt;
  return MessageReader(frame.substr(1 + kMagic.size()));
}

std::string identity(const Claimant& who) {
  return MessageWriter()
      .rank(who.rank)
      .rank(who.size)
      .u64(static_cast<std::uint64_t>(who.pid))
      .text(who.host)
      .raw(who.instance)
      .bytes();
}

}  // namespace

Result<Claimant> this_claimant(Rank rank, Rank size) {
  COLL_ASSIGN(std::string instance, random_bytes(kNonceBytes));
  return Claimant{rank, size, getpid(), host_name(), std::move(instance)};
}

std::optional<Word> word_of(std::string_view frame) {
  if (frame.size() < 1 + kMagic.size() || frame.substr(1, kMagic.size()) != kMagic) {
    return std::nullopt;
  }
  return static_cast<Word>(frame[0]);
}

std::string pack_greeting(std::string_view nonce) {
  return begin(Word::greeting).u32(kWireVersion).raw(nonce).bytes();
}

std::string pack_claim(const Claimant& who, std::string_view nonce, std::string_view proof) {
  return begin(Word::claim)
      .u32(kWireVersion)
      .raw(nonce)
      .raw(proof)
      .rank(who.rank)
      .rank(who.size)
      .u64(static_cast<std::uint64_t>(who.pid))
      .text(who.host)
      .raw(who.instance)
      .bytes();
}

std::string pack_welcome(std::string_view proof) {
  return begin(Word::welcome).raw(proof).bytes();
}

std::string pack_confirm() {
  return begin(Word::confirm).bytes();
}

std::string pack_refusal(Refused why) {
  return begin(Word::refusal).u8(static_cast<std::uint8_t>(why)).bytes();
}

std::string pack_start(Rank hub, std::string_view random) {
  return begin(Word::start).rank(hub).raw(random).bytes();
}

std::string pack_failure(const Status& failure) {
  return begin(Word::failure).failure(*failure.failure()).bytes();
}

std::optional<Greeting> read_greeting(std::string_view frame) {
  auto message = open(frame, Word::greeting);
  if (!message) return std::nullopt;
  Greeting greeting;
  greeting.version = message->u32();
  // What follows the version belongs to it; nothing is known of another one's.
  if (greeting.version != kWireVersion) return greeting;
  greeting.nonce = message->raw(kNonceBytes);
  return message->whole() ? std::optional(greeting) : std::nullopt;
}

std::optional<std::uint32_t> read_claim_version(std::string_view frame) {
  auto message = open(frame, Word::claim);
  return message ? std::optional(message->u32()) : std::nullopt;
}

std::optional<Claim> read_claim(std::string_view frame) {
  auto message = open(frame, Word::claim);
  if (!message || message->u32() != kWireVersion) return std::nullopt;
  Claim claim;
  claim.nonce = message->raw(kNonceBytes);
  claim.proof = message->raw(kProofBytes);
  claim.who.rank = message->rank();
  claim.who.size = message->rank();
  claim.who.pid = static_cast<std::int64_t>(message->u64());
  claim.who.host = message->text();
  claim.who.instance = message->raw(kNonceBytes);
  return message->whole() ? std::optional(claim) : std::nullopt;
}

std::optional<std::string> read_welcome(std::string_view frame) {
  auto message = open(frame, Word::welcome);
  if (!message) return std::nullopt;
  std::string proof(message->raw(kProofBytes));
  return message->whole() ? std::optional(proof) : std::nullopt;
}

std::optional<Refused> read_refusal(std::string_view frame) {
  auto message = open(frame, Word::refusal);
  if (!message) return std::nullopt;
  const std::uint8_t why = message->u8();
  if (!message->whole() || why < 1 || why > 3) return std::nullopt;
  return static_cast<Refused>(why);
}

std::optional<Start> read_start(std::string_view frame) {
  auto message = open(frame, Word::start);
  if (!message) return std::nullopt;
  Start start;
  start.hub = message->rank();
  start.random = message->raw(kNonceBytes);
  return message->whole() ? std::optional(start) : std::nullopt;
}

std::optional<Status> read_failure(std::string_view frame) {
  auto message = open(frame, Word::failure);
  if (!message) return std::nullopt;
  Failure failure = message->failure();
  return message->whole() ? std::optional(Status(std::move(failure))) : std::nullopt;
}

std::string claim_proof(std::string_view key, std::string_view hub_nonce, std::string_view nonce,
                        const Claimant& who) {
  return prove(key,
               MessageWriter().raw("claim").raw(hub_nonce).raw(nonce).raw(identity(who)).bytes());
}

std::string welcome_proof(std::string_view key, std::string_view hub_nonce,
                          std::string_view nonce) {
  return prove(key, MessageWriter().raw("welcome").raw(hub_nonce).raw(nonce).bytes());
}

void name_job(std::string_view key, std::string_view random, std::uint64_t (&job)[2]) {
  const std::string proof = prove(key, MessageWriter().raw("job").raw(random).bytes());
  MessageReader words(proof);
  job[0] = words.u64();
  job[1] = words.u64();
}

}  // namespace coll
