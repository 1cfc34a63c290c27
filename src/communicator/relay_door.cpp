// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: who comes to a rank's door, and who is
// believed.
#include "communicator/relay_door.hpp"

#include <algorithm>

#include "communicator/control_message.hpp"
#include "communicator/exchange_words.hpp"
#include "communicator/handshake.hpp"
#include "sys/proof.hpp"
#include "sys/socket.hpp"

namespace coll {
namespace {

constexpr std::size_t kCallers = 16;  // that have proved nothing yet

}  // namespace

std::string relay_key(const Meeting& meeting, Rank child) {
  return prove(MessageWriter().u64(meeting.job[0]).u64(meeting.job[1]).bytes(),
               "relay to rank " + std::to_string(child));
}

std::uint16_t RelayDoor::open() {
  Result<Fd> listener = listen_everywhere();
  if (!listener.ok()) return 0;
  listener_ = *std::move(listener);
  return local_address(listener_.get()).port();
}

void RelayDoor::watch(std::vector<pollfd>& fds) const {
  if (listener_) fds.push_back({listener_.get(), POLLIN, 0});
  for (const Caller& one : callers_) fds.push_back({one.link.fd(), one.link.events(), 0});
}

void RelayDoor::accept_callers() {
  for (std::size_t taken = 0; listener_ && taken < kCallers; ++taken) {
    Result<Fd> next = accept_next(listener_.get());
    if (next.ok() && !*next) return;
    Result<std::string> nonce = random_bytes(kNonceBytes);
    if (!next.ok() || !nonce.ok()) return listener_.reset();  // the hub will bring it
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
    if (!claim || claim->who.rank != relay_ || claim->who.size != size_ ||
        !same_proof(claim->proof, claim_proof(key_, caller.nonce, claim->nonce, claim->who))) {
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
