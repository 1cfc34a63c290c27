// SPDX-License-Identifier: Apache-2.0
// The first bytes in each direction.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "sys/proof.hpp"
#include "transports/transport.hpp"

namespace coll {

/// Drawn anew for each connection, so that a greeting overheard is of no use for another.
using TcpNonce = std::array<char, kNonceBytes>;
using TcpProof = std::array<char, kProofBytes>;

// The accepting end speaks first, so that a rank that has dialled a stranger's port tells it
// nothing; the job itself never crosses the wire:
//   accepting -> dialling   challenge   its nonce, nothing else
//   dialling -> accepting   hello       who it is and wants, its nonce, proof(job; nonces, all)
//   accepting -> dialling   welcome or refused, once it has opened its end too: the same of itself
// then messages follow.

/// Its size never changes, nor where its members are, so that versions can tell each other what
/// they are. In the host's byte order: another order shows in `magic`.
struct TcpGreeting {
  enum class Verdict : std::uint32_t { challenge, hello, welcome, refused };

  static constexpr std::uint64_t kMagic = 0x3170637463'6c6f63;  // "colctcp1"
  std::uint64_t magic = kMagic;
  std::uint32_t version = 0;
  Verdict verdict = Verdict::hello;
  Rank from = kNoRank;
  Rank to = kNoRank;
  std::uint32_t lane = 0;
  std::uint32_t credits = 0;
  std::uint64_t slot_bytes = 0;
  TcpNonce nonce = {};
  TcpProof proof = {};
};
static_assert(sizeof(TcpGreeting) == 88);

/// That whoever says this greeting knows the job and has got this nonce from the other end.
TcpProof tcp_proof(TcpGreeting greeting, const TransportSpec& self, const TcpNonce& theirs);

/// A challenge with a fresh nonce.
Result<TcpGreeting> tcp_challenge();
/// Any other greeting: `mine` is this end's nonce, `theirs` what the other end has sent.
TcpGreeting tcp_greeting(const TransportSpec& self, const ConnectionSpec& connection,
                         TcpGreeting::Verdict verdict, const TcpNonce& mine,
                         const TcpNonce& theirs);

/// Empty if the greeting is a rank's of this job that wants this rank and answers the nonce that
/// this end has sent, else why it is not.
std::string tcp_stranger(const TcpGreeting& greeting, const TransportSpec& self,
                         const TcpNonce& sent);
/// Sends all of it at once, for which a fresh socket has room. Fails otherwise.
Status tcp_send(int fd, const TcpGreeting& greeting);

/// Do both ends mean the same connection? If not (version, slots), an error that names both.
Status tcp_agree(const TcpGreeting& theirs, const ConnectionSpec& mine);

/// Collects the bytes of one greeting from a socket, without ever taking a byte more.
class TcpGreetingReader {
 public:
  enum class State { incomplete, complete, closed };
  State read(int fd);
  [[nodiscard]] int error() const { return error_; }  ///< errno of `closed`, 0 for an orderly end
  [[nodiscard]] std::size_t bytes() const { return have_; }
  [[nodiscard]] const TcpGreeting& greeting() const { return greeting_; }

 private:
  TcpGreeting greeting_;
  std::size_t have_ = 0;
  int error_ = 0;
};

}  // namespace coll
