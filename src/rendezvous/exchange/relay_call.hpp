// SPDX-License-Identifier: Apache-2.0
// How a relay serves one rank.
#pragma once
#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/frame_link.hpp"
#include "rendezvous/handshake.hpp"
#include "sys/clock.hpp"
#include "sys/net/net_address.hpp"

namespace coll {

/// A relay's call at the door of one rank; ends where that takes nothing for `patience`.
class RelayCall {
 public:
  RelayCall(Rank to, const Claimant& me, std::string key, std::shared_ptr<const std::string> packet,
            Clock::duration patience)
      : to_(to), me_(me), key_(std::move(key)), packet_(std::move(packet)), patience_(patience) {
    go_on();
  }

  void dial(const NetAddress& address);
  /// With the reason why the rank does not have the packet; empty if it has.
  void end(std::string why_not);
  [[nodiscard]] Rank to() const { return to_; }
  [[nodiscard]] bool ended() const { return state_ == State::ended; }
  /// Empty where the rank has the packet.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  [[nodiscard]] Deadline until() const { return until_; }
  /// What poll(2) should wait for.
  void watch(std::vector<pollfd>& fds) const;
  /// Takes the call as far as it goes without waiting.
  void turn();

 private:
  enum class State { dialing, greeting, claimed, sending, ended };
  void go_on() { until_ = Clock::now() + patience_; }
  void hear(const std::string& frame);

  Rank to_;
  const Claimant& me_;
  std::string key_;
  std::shared_ptr<const std::string> packet_;
  Clock::duration patience_;
  Deadline until_;
  State state_ = State::dialing;
  std::string why_not_;
  FrameLink link_;
  std::string their_nonce_;
  std::string nonce_;
};

}  // namespace coll
