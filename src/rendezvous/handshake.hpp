// SPDX-License-Identifier: Apache-2.0
// The words of the meeting, as they cross the wire.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "sys/proof.hpp"

namespace coll {

// The hub speaks first, so that a rank that has dialled a stranger's port sends it nothing:
//   hub  -> rank  Greeting   version, nonce
//   rank -> hub   Claim      version, nonce, proof(key; both nonces, who), who it is
//   hub  -> rank  Welcome    proof(key; both nonces): the hub knows the key too
//              or Refusal    why
//   rank -> hub   Confirm    it stays: until here a rank may turn to another address, and the hub
//                            does not count on it
// and when all are there, or it has come to nothing:
//   hub  -> rank  Start      whether all ranks are in one network; random bytes: the job's name is
//                            proof(key; these) and never sent
//              or Failure    what all ranks return
//   rank -> hub   Failure    this rank gives up (its deadline)
// A key is shown to nobody; with a COLL_SECRET in it, who listens learns neither key nor job.
// Without one, whoever can guess the job's key can join: it separates jobs, it does not protect.
// A claim is checked byte for byte before what it says is read: strangers reach no parser.

inline constexpr std::uint32_t kWireVersion = 5;
inline constexpr std::size_t kHandshakeLimit = 16384;

enum class Word : std::uint8_t {
  greeting = 'G',
  claim = 'C',
  welcome = 'W',
  confirm = 'Y',
  refusal = 'R',
  start = 'S',
  failure = 'F',
};

/// Who a process says it is. `instance` is drawn per attempt to meet: the same process that dials
/// again is not a second one.
struct Claimant {
  Rank rank = kNoRank;
  Rank size = 0;
  std::int64_t pid = 0;
  std::uint64_t network = 0;  ///< network_number()
  std::string host;
  std::string instance;  ///< kNonceBytes
  /// "pid 812 on host a"
  [[nodiscard]] std::string text() const {
    return "pid " + std::to_string(pid) + " on host " + host;
  }
};
/// Is the other one, who came by this socket, in this one's network? By what it says and by the way
/// it came: a copied machine says the same of itself, and what a tunnel brings seems to come from
/// here. Ends of a Unix socket have no address, so both have the same.
bool shares_network(const Claimant& me, const Claimant& other, int fd);
/// This process as `rank` of `size`.
Result<Claimant> this_claimant(Rank rank, Rank size);

struct Greeting {
  std::uint32_t version = 0;
  std::string nonce;
};
/// Views of a claim's frame.
struct SealedClaim {
  std::string_view nonce;
  std::string_view proof;
  std::string_view who;  ///< not to be read before it is proved
};
enum class Refused : std::uint8_t { key = 1, version = 2, garbage = 3 };
struct Start {
  Rank hub = kNoRank;
  bool one_network = false;
  std::string random;
};

std::string pack_greeting(std::string_view nonce);
std::string pack_claim(const Claimant& who, std::string_view nonce, std::string_view proof);
std::string pack_welcome(std::string_view proof);
std::string pack_confirm();
std::string pack_refusal(Refused why);
std::string pack_start(const Start& start);
std::string pack_failure(const Status& failure);

/// The first byte of a frame; what follows is read by the function of that name, nothing if it does
/// not parse (or, a claim, if it is of another version).
std::optional<Word> word_of(std::string_view frame);
std::optional<Greeting> read_greeting(std::string_view frame);
std::optional<std::uint32_t> read_claim_version(std::string_view frame);
std::optional<SealedClaim> read_claim(std::string_view frame);
std::optional<std::string> read_welcome(std::string_view frame);
std::optional<Refused> read_refusal(std::string_view frame);
std::optional<Start> read_start(std::string_view frame);
std::optional<Status> read_failure(std::string_view frame);

std::string claim_proof(std::string_view key, std::string_view hub_nonce, std::string_view nonce,
                        const Claimant& who);
bool is_proved(const SealedClaim& claim, std::string_view key, std::string_view hub_nonce);
/// Who says so; nothing if it does not parse. Of a proved claim only.
std::optional<Claimant> read_claimant(const SealedClaim& claim);
std::string welcome_proof(std::string_view key, std::string_view hub_nonce, std::string_view nonce);
/// Fills the 128 bits of the job's name.
void name_job(std::string_view key, std::string_view random, std::uint64_t (&job)[2]);

}  // namespace coll
