// SPDX-License-Identifier: Apache-2.0
// Who comes to a rank's door, and who is believed.
#include "rendezvous/exchange/relay_door.hpp"

#include <algorithm>

#include "rendezvous/control_message.hpp"
#include "rendezvous/exchange/exchange_words.hpp"
#include "rendezvous/handshake.hpp"
#include "sys/net/net_interfaces.hpp"
#include "sys/net/socket.hpp"
#include "sys/proof.hpp"

namespace coll {
namespace {

constexpr std::size_t kCallers = 16;  // that have proved nothing yet

}  // namespace

std::string relay_key(const Meeting& meeting, Rank child) {
  return prove(MessageWriter().u64(meeting.job[0]).u64(meeting.job[1]).bytes(),
               "relay to rank " + std::to_string(child));
}

/// A relay dials what the hub has seen of this rank (HubLinks::door).
Result<Listeners> RelayDoor::listen() const {
  if (!link_.is_loopback() || one_network_) return Listeners::open({link_});
  // Relays on other hosts know the hub's host by any of its addresses, those here by loopback.
  COLL_ASSIGN(std::vector<NetAddress> addresses, listening_addresses(interfaces_));
  if (!addresses.empty() && std::ranges::count(addresses, link_.with_port(0)) == 0) {
    addresses.push_back(link_);
  }
  return Listeners::open(addresses);
}

std::uint16_t RelayDoor::open() {
  Result<Listeners> listeners = listen();
  if (!listeners.ok()) return 0;
  listeners_ = *std::move(listeners);
  return listeners_.port();
}

void RelayDoor::watch(std::vector<pollfd>& fds) const {
  if (listeners_) fds.push_back({listeners_.fd(), POLLIN, 0});
  for (const Caller& one : callers_) fds.push_back({one.link.fd(), one.link.events(), 0});
}

void RelayDoor::accept_callers() {
  for (std::size_t taken = 0; listeners_ && taken < kCallers; ++taken) {
    Result<Fd> next = listeners_.accept();
    if (next.ok() && !*next) return;
    Result<std::string> nonce = random_bytes(kNonceBytes);
    if (!next.ok() || !nonce.ok()) {
      listeners_ = {};  // the hub will bring it
      return;
    }
    const auto unproved = [](const Caller& one) { return !one.proved; };
    if (std::ranges::count_if(callers_, unproved) == std::ptrdiff_t{kCallers}) {
      callers_.erase(std::ranges::find_if(callers_, unproved));
    }
    set_nodelay(next->get());
    callers_.push_back({FrameLink(*std::move(next), kHandshakeLimit), *std::move(nonce),
                        Clock::now() + call_time_});
    callers_.back().link.send(pack_greeting(callers_.back().nonce));
  }
}

std::optional<std::string> RelayDoor::hear(Caller& caller) const {
  std::string frame;
  caller.link.push();
  for (;;) {
    switch (caller.link.receive(frame)) {
      case FrameLink::Got::nothing:
        return std::nullopt;
      case FrameLink::Got::closed:
      case FrameLink::Got::garbage:
        caller.link.close();
        return std::nullopt;
      case FrameLink::Got::frame:
        break;
    }
    if (caller.proved) return frame;
    const auto claim = read_claim(frame);
    const bool proved = claim && is_proved(*claim, key_, caller.nonce);
    const auto who = proved ? read_claimant(*claim) : std::nullopt;
    if (!who || who->rank != relay_ || who->size != size_) {
      caller.link.close();
      return std::nullopt;
    }
    caller.proved = true;
    caller.link = FrameLink(caller.link.take(), kPacketLimit);
    caller.link.send(pack_welcome(welcome_proof(key_, caller.nonce, claim->nonce)));
  }
}

std::optional<std::string> RelayDoor::turn() {
  accept_callers();
  const auto now = Clock::now();
  for (Caller& caller : callers_) {
    if (auto packet = hear(caller); packet && is_packet(*packet)) {
      caller.link.send(pack_go());
      return packet;
    }
    if (!caller.proved && now >= caller.until) caller.link.close();
  }
  std::erase_if(callers_, [](const Caller& one) { return !one.link; });
  return std::nullopt;
}

}  // namespace coll
