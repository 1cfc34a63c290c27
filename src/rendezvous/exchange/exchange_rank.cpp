// SPDX-License-Identifier: Apache-2.0
// An exchange as a rank sees it that is not the hub.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <memory>
#include <optional>

#include "base/log.hpp"
#include "rendezvous/exchange/exchange_rules.hpp"
#include "rendezvous/exchange/exchange_sides.hpp"
#include "rendezvous/exchange/relay_call.hpp"
#include "rendezvous/exchange/relay_door.hpp"
#include "rendezvous/frame_link.hpp"
#include "rendezvous/handshake.hpp"
#include "sys/net/net_address.hpp"
#include "sys/net/socket.hpp"

namespace coll {
namespace {

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
        return lost_hub(meeting_.hub);
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
  const Rank relay = tree_.parent(meeting_.rank);
  if (relay != meeting_.hub) door_.emplace(meeting_, relay, call_time_);
  hub_ = FrameLink(std::move(link), kPacketLimit);
  hub_.send(pack_text(door_ ? door_->open() : std::uint16_t{0}, mine));
  const Deadline until = wait_for_hub_until(deadline_);
  Status failure;
  while (failure.ok() && !done_) {
    failure = turn(until);
    if (failure.ok() && !done_ && Clock::now() >= until) {
      failure = late_hub(meeting_.hub);
    }
  }
  link = hub_.take();
  if (!failure.ok()) return failure;
  return *packet_;
}

}  // namespace

Result<std::string> exchange_with_hub(Meeting& meeting, const Relaying& relaying,
                                      std::string_view mine, Deadline deadline) {
  return RankExchange(meeting, relaying, deadline).run(mine);
}

}  // namespace coll
