// SPDX-License-Identifier: Apache-2.0
// Where a rank waits for its relay.
#pragma once
#include <poll.h>

#include <list>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/frame_link.hpp"
#include "rendezvous/rendezvous.hpp"
#include "sys/clock.hpp"
#include "sys/net/listeners.hpp"
#include "sys/net/socket.hpp"

namespace coll {

/// What a relay and this one of its children prove to each other that they know.
std::string relay_key(const Meeting& meeting, Rank child);

/// A rank's door: where its relay brings the packet. Strangers are dropped and learn nothing.
class RelayDoor {
 public:
  /// Who calls has `call_time` to prove itself.
  RelayDoor(const Meeting& meeting, Rank relay, Clock::duration call_time)
      : key_(relay_key(meeting, meeting.rank)),
        relay_(relay),
        size_(meeting.size),
        call_time_(call_time),
        link_(local_address(meeting.links[static_cast<std::size_t>(meeting.hub)].get())),
        one_network_(meeting.one_network),
        interfaces_(meeting.interfaces) {}

  /// The port; 0 where there is no way to listen.
  std::uint16_t open();
  /// What poll(2) should wait for.
  void watch(std::vector<pollfd>& fds) const;
  /// The packet, once the relay has brought it.
  std::optional<std::string> turn();

 private:
  struct Caller {
    FrameLink link;
    std::string nonce;
    Deadline until;  ///< to prove the key
    bool proved = false;
  };
  [[nodiscard]] Result<Listeners> listen() const;
  void accept_callers();
  /// Nothing yet, or the packet; a stranger's link is closed.
  std::optional<std::string> hear(Caller& caller) const;

  std::string key_;
  Rank relay_;
  Rank size_;
  Clock::duration call_time_;
  NetAddress link_;  ///< this end of the link with the hub
  bool one_network_;
  std::string interfaces_;
  Listeners listeners_;
  std::list<Caller> callers_;
};

}  // namespace coll
