// SPDX-License-Identifier: Apache-2.0
// Reaches a peer by the first way that works.
#pragma once
#include <string>
#include <vector>

#include "sys/net/ready_set.hpp"
#include "sys/net/socket.hpp"
#include "transports/dial/dial_greeting.hpp"

namespace coll {

/// Dials a peer's addresses in order without waiting for one before trying the next ("happy
/// eyeballs"), greets whoever answers, and ends with the one that answers as the right rank of the
/// right job.
class Dialer {
 public:
  Dialer(DialWire wire, const TransportSpec& self, const ConnectionSpec& connection,
         const DialOffer& offer, const std::vector<NetAddress>& ways, ReadySet& ready);

  /// Moves on, where `ready` has news of its sockets. The connected and greeted socket; an empty
  /// one: not yet; or why it cannot be. After either end it is not to be called again.
  Result<Fd> poll();
  /// The peer's, once there is a socket.
  [[nodiscard]] const DialOffer& theirs() const { return theirs_; }

 private:
  struct Way {
    enum class State { untried, dialling, connected, greeted, taken, failed };
    NetAddress address;
    State state = State::untried;
    Fd fd{};
    Clock::time_point since{};  ///< of this state
    DialGreetingReader challenge{};
    DialNonce nonce{};  ///< of this end
    DialGreetingReader answer{};
    Status failure{};
  };

  bool want_another() const;
  void start(Way& way);
  void move_on(Way& way);
  void give_up(Way& way, Status why);
  bool has_read(Way& way, DialGreetingReader& reader);
  void greet(Way& way);
  [[nodiscard]] std::string rejected() const;

  const DialWire wire_;
  TransportSpec self_;
  ConnectionSpec connection_;
  DialOffer mine_, theirs_;
  ReadySet& ready_;
  std::vector<Way> ways_;
};

}  // namespace coll
