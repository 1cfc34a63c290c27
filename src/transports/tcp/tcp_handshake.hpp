// SPDX-License-Identifier: Apache-2.0
// transports/tcp/: messages over TCP sockets. This file: the first bytes in each direction.
#pragma once
#include <cstdint>
#include <string>

#include "transports/transport.hpp"

namespace coll {

/// The dialling end sends one, the accepting end answers with one when it has opened its end too;
/// then messages follow. Its size and its first seven members never change, so that versions can
/// tell each other what they are. In the host's byte order: another order shows in `magic`.
struct TcpGreeting {
  enum class Verdict : std::uint32_t { hello, welcome, refused };

  static constexpr std::uint64_t kMagic = 0x3170637463'6c6f63;  // "colctcp1"
  std::uint64_t magic = kMagic;
  std::uint32_t version = 0;
  Verdict verdict = Verdict::hello;
  std::uint64_t job[2] = {0, 0};
  Rank from = kNoRank;
  Rank to = kNoRank;
  std::uint32_t lane = 0;
  std::uint32_t credits = 0;
  std::uint64_t slot_bytes = 0;
};
static_assert(sizeof(TcpGreeting) == 56);

TcpGreeting tcp_greeting(const TransportSpec& self, const ConnectionSpec& connection,
                         TcpGreeting::Verdict verdict);

/// Empty if the greeting comes from a rank of this job that wants this rank, else why it does not.
std::string tcp_stranger(const TcpGreeting& greeting, const TransportSpec& self);

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
