// SPDX-License-Identifier: Apache-2.0
// The words of the meeting, packed and read.
#include "rendezvous/handshake.hpp"

#include <unistd.h>

#include "rendezvous/control_message.hpp"
#include "sys/net/net_interfaces.hpp"
#include "sys/net/socket.hpp"

namespace coll {
namespace {

constexpr std::string_view kFrameMagic = "collrdv";

MessageWriter begin(Word word) {
  MessageWriter message;
  message.u8(static_cast<std::uint8_t>(word)).raw(kFrameMagic);
  return message;
}

/// A reader behind the head of a frame that must be this word.
std::optional<MessageReader> open(std::string_view frame, Word word) {
  if (word_of(frame) != word) return std::nullopt;
  return MessageReader(frame.substr(1 + kFrameMagic.size()));
}

std::string identity(const Claimant& who) {
  return MessageWriter()
      .rank(who.rank)
      .rank(who.size)
      .u64(static_cast<std::uint64_t>(who.pid))
      .u64(who.network)
      .text(who.host)
      .raw(who.instance)
      .bytes();
}

std::string proof_of_claim(std::string_view key, std::string_view hub_nonce, std::string_view nonce,
                           std::string_view who) {
  return prove(key, MessageWriter().raw("claim").raw(hub_nonce).raw(nonce).raw(who).bytes());
}

}  // namespace

bool shares_network(const Claimant& me, const Claimant& other, int fd) {
  const NetAddress from = remote_address(fd);
  const bool here = from.is_loopback() || from.with_port(0) == local_address(fd).with_port(0);
  return here && other.network != 0 && other.network == me.network;
}

Result<Claimant> this_claimant(Rank rank, Rank size) {
  COLL_ASSIGN(std::string instance, random_bytes(kNonceBytes));
  return Claimant{rank, size, getpid(), network_number(), host_name(), std::move(instance)};
}

std::optional<Word> word_of(std::string_view frame) {
  if (frame.size() < 1 + kFrameMagic.size() || frame.substr(1, kFrameMagic.size()) != kFrameMagic) {
    return std::nullopt;
  }
  return static_cast<Word>(frame[0]);
}

std::string pack_greeting(std::string_view nonce) {
  return begin(Word::greeting).u32(kWireVersion).raw(nonce).bytes();
}

std::string pack_claim(const Claimant& who, std::string_view nonce, std::string_view proof) {
  return begin(Word::claim).u32(kWireVersion).raw(nonce).raw(proof).raw(identity(who)).bytes();
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

std::string pack_start(const Start& start) {
  return begin(Word::start).rank(start.hub).u8(start.one_network ? 1 : 0).raw(start.random).bytes();
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

std::optional<SealedClaim> read_claim(std::string_view frame) {
  constexpr std::size_t kFixed =
      1 + kFrameMagic.size() + sizeof(std::uint32_t) + kNonceBytes + kProofBytes;
  auto message = open(frame, Word::claim);
  if (!message || message->u32() != kWireVersion || frame.size() < kFixed) return std::nullopt;
  SealedClaim claim;
  claim.nonce = message->raw(kNonceBytes);
  claim.proof = message->raw(kProofBytes);
  claim.who = frame.substr(kFixed);
  return claim;
}

bool is_proved(const SealedClaim& claim, std::string_view key, std::string_view hub_nonce) {
  return same_proof(claim.proof, proof_of_claim(key, hub_nonce, claim.nonce, claim.who));
}

std::optional<Claimant> read_claimant(const SealedClaim& claim) {
  MessageReader message(claim.who);
  Claimant who;
  who.rank = message.rank();
  who.size = message.rank();
  who.pid = static_cast<std::int64_t>(message.u64());
  who.network = message.u64();
  who.host = message.text();
  who.instance = message.raw(kNonceBytes);
  return message.whole() ? std::optional(who) : std::nullopt;
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
  const std::uint8_t one_network = message->u8();
  start.one_network = one_network == 1;
  start.random = message->raw(kNonceBytes);
  return message->whole() && one_network <= 1 ? std::optional(start) : std::nullopt;
}

std::optional<Status> read_failure(std::string_view frame) {
  auto message = open(frame, Word::failure);
  if (!message) return std::nullopt;
  Failure failure = message->failure();
  return message->whole() ? std::optional(Status(std::move(failure))) : std::nullopt;
}

std::string claim_proof(std::string_view key, std::string_view hub_nonce, std::string_view nonce,
                        const Claimant& who) {
  return proof_of_claim(key, hub_nonce, nonce, identity(who));
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
