// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: an exchange as a rank sees it that is not the
// hub.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <memory>
#include <optional>

#include "base/log.hpp"
#include "communicator/control_message.hpp"
#include "communicator/exchange_sides.hpp"
#include "communicator/frame_link.hpp"
#include "communicator/handshake.hpp"
#include "sys/net_address.hpp"
#include "sys/proof.hpp"
#include "sys/socket.hpp"

namespace coll {
namespace {

constexpr std::size_t kCallers = 16;  // that have proved nothing yet

/// What a relay and this one of its children prove to each other that they know.
std::string relay_key(const Meeting& meeting, Rank child) {
  return prove(MessageWriter().u64(meeting.job[0]).u64(meeting.job[1]).bytes(),
               "relay to rank " + std::to_string(child));
}

/// A rank's door: where its relay brings the packet. Strangers are dropped and learn nothing.
class RelayDoor {
 public:
  RelayDoor(const Meeting& meeting, Rank relay, Clock::duration call_time)
      : key_(relay_key(meeting, meeting.rank)),
        relay_(relay),
        size_(meeting.size),
        call_time_(call_time) {}

  /// The port; 0 where there is no way to listen.
  std::uint16_t open() {
    Result<Fd> listener = listen_everywhere();
    if (!listener.ok()) return 0;
    listener_ = *std::move(listener);
    return local_address(listener_.get()).port();
  }
  void watch(std::vector<pollfd>& fds) const {
    if (listener_) fds.push_back({listener_.get(), POLLIN, 0});
    for (const Caller& one : callers_) fds.push_back({one.link.fd(), one.link.events(), 0});
  }
  /// The packet, once the relay has brought it.
  std::optional<std::string> turn();

 private:
  struct Caller {
    FrameLink link;
    std::string nonce;
    Deadline until;  ///< to prove the key
    bool proved = false;
  };
  void accept_callers();
  /// Nothing yet, or the packet; a stranger's link is closed.
  std::optional<std::string> hear(Caller& caller) const;

  std::string key_;
  Rank relay_;
  Rank size_;
  Clock::duration call_time_;
  Fd listener_;
  std::list<Caller> callers_;
};

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

/// A relay's call at the door of one rank.
class RelayCall {
 public:
  RelayCall(Rank to, const Claimant& me, std::string key, std::shared_ptr<const std::string> packet,
            Clock::duration patience)
      : to_(to), me_(me), key_(std::move(key)), packet_(std::move(packet)), patience_(patience) {
    go_on();
  }

  void dial(const NetAddress& address) {
    Result<Fd> fd = begin_dial(address);
    if (!fd.ok()) return end(fd.status().text());
    link_ = FrameLink(*std::move(fd), kHandshakeLimit);
  }
  /// With the reason why the rank does not have the packet; empty if it has.
  void end(std::string why_not) {
    why_not_ = std::move(why_not);
    state_ = State::ended;
    link_.close();
  }
  [[nodiscard]] Rank to() const { return to_; }
  [[nodiscard]] bool ended() const { return state_ == State::ended; }
  /// Empty where the rank has the packet.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  [[nodiscard]] Deadline until() const { return until_; }
  void watch(std::vector<pollfd>& fds) const {
    fds.push_back({link_.fd(), state_ == State::dialing ? short{POLLOUT} : link_.events(), 0});
  }
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

Status hub_failed(Rank hub, Code code, const std::string& what, const char* hint) {
  return failed(code, "exchange with the hub, rank " + std::to_string(hub) + ": " + what, hint)
      .at_rank(hub);
}

class RankExchange {
 public:
  RankExchange(Meeting& meeting, const Relaying& relaying, Deadline deadline)
      : meeting_(meeting),
        tree_(relay_tree(meeting, relaying)),
        deadline_(deadline),
        call_time_(std::min<Clock::duration>(relaying.call_time, (deadline - Clock::now()) / 8)) {}

  Result<std::string> run(std::string_view mine);

 private:
  /// Until there is something to return: what all have, or a failure.
  Status turn(Deadline until);
  Status hear_hub();
  Status take_packet(std::string packet);
  Status begin_calls();
  /// Once all calls have come to an end, says so.
  void settle_calls();
  Meeting& meeting_;
  RelayTree tree_;
  Deadline deadline_;
  Clock::duration call_time_;
  std::optional<RelayDoor> door_;  ///< until the packet is here
  FrameLink hub_;
  std::shared_ptr<const std::string> packet_;  ///< once it is here
  std::optional<Claimant> me_;                 ///< as a relay
  std::list<RelayCall> calls_;
  std::vector<Rank> unreached_;
  bool said_have_ = false;
  bool done_ = false;
};

Status RankExchange::begin_calls() {
  const std::vector<Rank> children = tree_.children(meeting_.rank);
  if (children.empty()) return {};
  const auto doors = read_doors(*packet_, meeting_.size);
  if (!doors) return senseless_hub(meeting_.hub);
  COLL_ASSIGN(me_, this_claimant(meeting_.rank, meeting_.size));
  const NetAddress hub = remote_address(hub_.fd());
  for (const Rank child : children) {
    RelayCall& call =
        calls_.emplace_back(child, *me_, relay_key(meeting_, child), packet_, call_time_);
    const std::string& door = (*doors)[static_cast<std::size_t>(child)];
    const bool here = door.starts_with(':');  // on the hub's host
    const Result<NetAddress> address = NetAddress::parse(here ? "0.0.0.0" + door : door);
    if (address.ok()) {
      call.dial(here ? hub.with_port(address->port()) : *address);
    } else {
      call.end("it has no door");
    }
  }
  return {};
}

void RankExchange::settle_calls() {
  for (const RelayCall& call : calls_) {
    if (!call.ended() || call.why_not().empty()) continue;
    unreached_.push_back(call.to());
    if (log_enabled(LogLevel::info)) {
      log(LogLevel::info, "exchange: the hub serves rank " + std::to_string(call.to()) +
                              ", which this relay could not: " + call.why_not());
    }
  }
  std::erase_if(calls_, [](const RelayCall& call) { return call.ended(); });
  if (!calls_.empty() || said_have_) return;
  hub_.send(pack_have(unreached_));
  said_have_ = true;
}

Status RankExchange::take_packet(std::string packet) {
  if (packet_) return {};  // the hub helped, and the relay has come after all
  packet_ = std::make_shared<const std::string>(std::move(packet));
  door_.reset();
  done_ = tree_.is_star();
  return done_ ? Status() : begin_calls();
}

Status RankExchange::hear_hub() {
  std::string frame;
  hub_.push();
  while (!done_) {
    switch (hub_.receive(frame)) {
      case FrameLink::Got::nothing:
        return {};
      case FrameLink::Got::closed:
        return hub_failed(meeting_.hub, Code::peer_lost, "it went away while ranks were connecting",
                          "see its output for the reason");
      case FrameLink::Got::garbage:
        return senseless_hub(meeting_.hub);
      case FrameLink::Got::frame:
        break;
    }
    if (auto failure = read_failure(frame)) return *std::move(failure);
    if (is_packet(frame)) {
      COLL_TRY(take_packet(std::move(frame)));
    } else if (is_go(frame) && said_have_) {
      done_ = true;
    } else {
      return senseless_hub(meeting_.hub);
    }
  }
  return {};
}

Status RankExchange::turn(Deadline until) {
  std::vector<pollfd> fds{{hub_.fd(), hub_.events(), 0}};
  if (door_) door_->watch(fds);
  for (const RelayCall& call : calls_) {
    call.watch(fds);
    until = std::min(until, call.until());
  }
  if (::poll(fds.data(), fds.size(), poll_timeout(until)) < 0 && errno != EINTR) {
    return system_failure("exchange: waiting for the hub", errno);
  }
  if (auto packet = door_ ? door_->turn() : std::nullopt) {
    COLL_TRY(take_packet(*std::move(packet)));
  }
  for (RelayCall& call : calls_) call.turn();
  COLL_TRY(hear_hub());
  if (packet_ && !done_) settle_calls();
  return {};
}

Result<std::string> RankExchange::run(std::string_view mine) {
  Fd& link = meeting_.links[static_cast<std::size_t>(meeting_.hub)];
  hub_ = FrameLink(std::move(link), kPacketLimit);
  const Rank relay = tree_.parent(meeting_.rank);
  if (relay != meeting_.hub) door_.emplace(meeting_, relay, call_time_);
  hub_.send(pack_text(door_ ? door_->open() : std::uint16_t{0}, mine));
  // The hub decides, and may do so at the last moment.
  const Deadline until =
      deadline_ == Deadline::max() ? deadline_ : deadline_ + kHubsWordTime + kHubsWordTime;
  Status failure;
  while (failure.ok() && !done_) {
    failure = turn(until);
    if (failure.ok() && !done_ && Clock::now() >= until) {
      failure = hub_failed(meeting_.hub, Code::deadline, "it did not answer in time",
                           "see whether its process is stopped, or its host overloaded or gone");
    }
  }
  link = hub_.take();
  if (!failure.ok()) return failure;
  return *packet_;
}

}  // namespace

Status senseless_hub(Rank hub) {
  return hub_failed(hub, Code::mismatch, "it sent something that makes no sense",
                    "use the same version of the library on all ranks");
}

Result<std::string> exchange_with_hub(Meeting& meeting, const Relaying& relaying,
                                      std::string_view mine, Deadline deadline) {
  return RankExchange(meeting, relaying, deadline).run(mine);
}

}  // namespace coll
