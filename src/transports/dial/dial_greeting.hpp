// SPDX-License-Identifier: Apache-2.0
// The first bytes in each direction, of every transport that dials.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "sys/proof.hpp"
#include "transports/dial/dial_descriptor.hpp"
#include "transports/transport.hpp"

namespace coll {

/// What one end tells the other besides who it is, under the same proof: a transport's own bytes,
/// zero where it has none.
struct DialOffer {
  static constexpr std::size_t kBytes = 512;
  std::array<std::byte, kBytes> bytes{};
};

/// Drawn anew for each connection, so that a greeting overheard is of no use for another.
using DialNonce = std::array<char, kNonceBytes>;
using DialProof = std::array<char, kProofBytes>;

// The accepting end speaks first, so that a rank that has dialled a stranger's port tells it
// nothing; the job itself never crosses the wire:
//   accepting -> dialling   challenge   its nonce, nothing else
//   dialling -> accepting   hello       who it is and wants, its nonce, proof(job; nonces, all)
//   accepting -> dialling   welcome or refused, once it has opened its end too: the same of itself
// then the transport's own bytes follow.

/// Its size never changes, nor where its members are, so that versions can tell each other what
/// they are. In the host's byte order: another order shows in `magic`.
struct DialGreeting {
  enum class Verdict : std::uint32_t { challenge, hello, welcome, refused };

  static constexpr std::uint64_t kMagic = 0x31616964'6c6c6f63;  // "colldia1"
  std::uint64_t magic = kMagic;
  std::uint32_t version = 0;
  Verdict verdict = Verdict::hello;
  Rank from = kNoRank;
  Rank to = kNoRank;
  std::uint32_t lane = 0;
  std::uint32_t credits = 0;
  std::uint64_t slot_bytes = 0;
  DialNonce nonce = {};
  DialOffer offer;
  DialProof proof = {};
};
static_assert(sizeof(DialGreeting) == 88 + DialOffer::kBytes);

/// That whoever says this greeting knows the job and has got this nonce from the other end.
DialProof dial_proof(DialGreeting greeting, DialWire wire, const TransportSpec& self,
                     const DialNonce& theirs);

/// A challenge with a fresh nonce.
Result<DialGreeting> dial_challenge(DialWire wire);
/// Any other greeting: `mine` is this end's nonce, `theirs` what the other end has sent.
DialGreeting dial_greeting(DialWire wire, const TransportSpec& self,
                           const ConnectionSpec& connection, const DialOffer& offer,
                           DialGreeting::Verdict verdict, const DialNonce& mine,
                           const DialNonce& theirs);

/// Empty if the greeting is a rank's of this job that wants this rank and answers the nonce that
/// this end has sent, else why it is not.
std::string dial_stranger(const DialGreeting& greeting, DialWire wire, const TransportSpec& self,
                          const DialNonce& sent);
/// Sends all of it at once, for which a fresh socket has room. Fails otherwise.
Status dial_send(int fd, const DialGreeting& greeting);

/// Do both ends mean the same connection? If not (version, slots), an error that names both.
Status dial_agree(const DialGreeting& theirs, DialWire wire, const ConnectionSpec& mine);

/// Collects the bytes of one greeting from a socket, without ever taking a byte more.
class DialGreetingReader {
 public:
  enum class State { incomplete, complete, closed };
  State read(int fd);
  [[nodiscard]] int error() const { return error_; }  ///< errno of `closed`, 0 for an orderly end
  [[nodiscard]] std::size_t bytes() const { return have_; }
  [[nodiscard]] const DialGreeting& greeting() const { return greeting_; }

 private:
  DialGreeting greeting_;
  std::size_t have_ = 0;
  int error_ = 0;
};

}  // namespace coll
