// SPDX-License-Identifier: Apache-2.0
// What the ends of a connection tell each other over the socket that they met by.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sys/net/socket.hpp"
#include "transports/verbs/verbs_pair.hpp"

namespace coll {

/// One word of an end to the other, in the host's byte order, as the greetings before it.
struct VerbsWord {
  enum class Kind : std::uint32_t {
    open,    ///< this end's pair can receive
    broken,  ///< it can no more, and this has arrived
    anew,    ///< it has begun anew: open it to `end`
    closed,  ///< this end goes in order
  };
  Kind kind = Kind::open;
  std::uint32_t pair = 0;
  std::uint32_t life = 0;      ///< of the pair, from 0
  std::uint32_t era = 0;       ///< of stamps that this end takes from now on
  std::uint64_t arrived = 0;   ///< messages, through this life of the pair
  std::uint64_t consumed = 0;  ///< messages, all before the next that this end waits for
  VerbsEnd end;
};

/// The socket of a connection: a sign of life, and a way for words.
class VerbsControl {
 public:
  VerbsControl() = default;
  explicit VerbsControl(Fd socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const { return socket_.get(); }
  /// Sends it now, or as soon as the socket takes it.
  void say(const VerbsWord& word);
  void push();
  /// The next word, if a whole one has come.
  std::optional<VerbsWord> hear();
  /// The peer says nothing more; errno of the reason, 0 for an orderly end.
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] int error() const { return error_; }

 private:
  void end(const Moved& moved);

  Fd socket_;
  std::vector<std::byte> unsent_;
  std::array<std::byte, sizeof(VerbsWord)> heard_{};
  std::size_t have_ = 0;
  bool ended_ = false;
  int error_ = 0;
};

}  // namespace coll
