// SPDX-License-Identifier: Apache-2.0
// Dialling, claiming and handing over, step by step.
#include "rendezvous/exchange/relay_call.hpp"

#include "rendezvous/exchange/exchange_words.hpp"
#include "sys/net/socket.hpp"
#include "sys/proof.hpp"

namespace coll {

void RelayCall::dial(const NetAddress& address) {
  Result<Fd> fd = begin_dial(address);
  if (!fd.ok()) return end(fd.status().text());
  link_ = FrameLink(*std::move(fd), kHandshakeLimit);
}

void RelayCall::end(std::string why_not) {
  why_not_ = std::move(why_not);
  state_ = State::ended;
  link_.close();
}

void RelayCall::watch(std::vector<pollfd>& fds) const {
  fds.push_back({link_.fd(), state_ == State::dialing ? short{POLLOUT} : link_.events(), 0});
}

void RelayCall::hear(const std::string& frame) {
  if (state_ == State::greeting) {
    const auto greeting = read_greeting(frame);
    Result<std::string> nonce = random_bytes(kNonceBytes);
    if (!nonce.ok()) return end(nonce.status().text());
    if (!greeting || greeting->version != kWireVersion) return end("something else answers");
    their_nonce_ = greeting->nonce;
    nonce_ = *std::move(nonce);
    link_.send(pack_claim(me_, nonce_, claim_proof(key_, their_nonce_, nonce_, me_)));
    state_ = State::claimed;
  } else if (state_ == State::claimed) {
    const auto proof = read_welcome(frame);
    if (!proof || !same_proof(*proof, welcome_proof(key_, their_nonce_, nonce_))) {
      return end("it does not know the key of this job");
    }
    link_.send(packet_);
    state_ = State::sending;
  } else {
    end(is_go(frame) ? "" : "it talks out of turn");
  }
}

void RelayCall::turn() {
  if (ended()) return;
  if (state_ == State::dialing) {
    const Result<bool> connected = check_dial(link_.fd());
    if (!connected.ok()) return end(connected.status().text());
    if (*connected) {
      set_nodelay(link_.fd());
      state_ = State::greeting;
      go_on();
    }
  }
  const std::uint64_t sent = link_.sent();
  if (state_ != State::dialing) link_.push();
  std::string frame;
  while (state_ != State::dialing && !ended()) {
    const FrameLink::Got got = link_.receive(frame);
    if (got == FrameLink::Got::nothing) break;
    if (got != FrameLink::Got::frame) return end("it hung up");
    hear(frame);
  }
  if (ended()) return;
  if (link_.sent() > sent) go_on();
  if (Clock::now() >= until_) end("it takes nothing");
}

}  // namespace coll
