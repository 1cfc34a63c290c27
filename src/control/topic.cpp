// SPDX-License-Identifier: Apache-2.0
// One communicator's share of a control plane.
#include "control/topic.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.hpp"
#include "control/control_plane.hpp"
#include "control/topic_frame.hpp"
#include "rendezvous/exchange/exchange_words.hpp"

namespace coll {
namespace {

/// The most that is kept of a peer's frames that nobody has asked for yet. Ranks of a topic wait
/// for each other often, so more is a defect of the peer.
constexpr std::size_t kInboxBytes = std::size_t{4} << 20;

Rank index_of(const std::vector<Rank>& members, Rank member) {
  const auto found = std::ranges::find(members, member);
  COLL_CHECK(found != members.end(), "the hub and this rank are members of their topics");
  return static_cast<Rank>(found - members.begin());
}

}  // namespace

Topic::Topic(std::shared_ptr<ControlPlane> plane, std::uint64_t id, std::vector<Rank> members)
    : plane_(std::move(plane)),
      id_(id),
      members_(std::move(members)),
      rank_(index_of(members_, plane_->rank())),
      hub_(index_of(members_, plane_->hub())),
      ways_(members_.size()) {
  for (Rank peer = 0; peer < size(); ++peer) {
    if (peer != rank_ && (is_hub() || peer == hub_)) ways_[at(peer)] = {Way::In::open, true};
  }
}

Topic::~Topic() {
  end();
}

void Topic::end() noexcept {
  if (!std::exchange(entered_, false)) return;
  const std::lock_guard lock(mutex());
  handler_ = nullptr;
  hang_up_all();
  plane_->leave(*this);
}

std::mutex& Topic::mutex() {
  return plane_->mutex();
}

void Topic::ask() noexcept {
  plane_->thread_->ask(*this);
}

void Topic::hand_over(Handler& handler) {
  const std::lock_guard lock(mutex());
  handler_ = &handler;
  while (!inbox_.empty()) {
    Inbound first = std::move(inbox_.front());
    inbox_.pop_front();
    deliver(std::move(first));
  }
  // After the last `receive`: nobody has heard of it yet.
  if (!failure_.ok()) handler_->on_failure(failure_);
  settle();
}

std::optional<Topic::Inbound> Topic::receive(Deadline deadline) {
  std::unique_lock lock(mutex());
  const auto there = [this] { return !inbox_.empty() || !failure_.ok(); };
  if (deadline == Deadline::max()) {
    arrived_.wait(lock, there);
  } else if (!arrived_.wait_until(lock, deadline, there)) {
    return std::nullopt;
  }
  if (!failure_.ok()) return Inbound{rank_, true, {}, Ending::hung_up, failure_};
  Inbound first = std::move(inbox_.front());
  inbox_.pop_front();
  ways_[at(first.from)].waiting -= sizeof first + first.frame.size();
  return first;
}

void Topic::tell_all(std::string_view frame) {
  const auto shared = topic_frame(id_, false, frame);
  for (Rank peer = 0; peer < size(); ++peer) {
    const std::lock_guard lock(mutex());
    if (ways_[at(peer)].out) plane_->post(members_[at(peer)], shared);
  }
}

Rank Topic::rank_of(Rank member) const {
  if (!is_hub()) return member == plane_->hub() ? hub_ : kNoRank;
  const auto found = std::ranges::find(members_, member);
  return found == members_.end() ? kNoRank : static_cast<Rank>(found - members_.begin());
}

// --- with the mutex held

void Topic::send(Rank to, std::string_view frame) {
  if (ways_[at(to)].out) plane_->post(members_[at(to)], topic_frame(id_, false, frame));
}

void Topic::send_all(std::string_view frame) {
  const auto shared = topic_frame(id_, false, frame);
  for (Rank peer = 0; peer < size(); ++peer) {
    if (ways_[at(peer)].out) plane_->post(members_[at(peer)], shared);
  }
}

void Topic::hang_up(Rank peer) {
  Way& way = ways_[at(peer)];
  if (way.in == Way::In::open) way.in = Way::In::unheard;
  if (!std::exchange(way.out, false)) return;
  plane_->post(members_[at(peer)], topic_frame(id_, true, {}));
}

void Topic::hang_up_all() noexcept {
  for (Rank peer = 0; peer < size(); ++peer) {
    try {
      hang_up(peer);
    } catch (const std::exception&) {
      plane_->shut(members_[at(peer)]);  // no memory to say so: the connection's end does
    }
  }
}

void Topic::take(Rank member, std::string frame) {
  const Rank from = rank_of(member);
  if (from == kNoRank || !open(from)) return;  // no member: it has nothing to say
  const std::size_t room = kInboxBytes + (from == hub_ ? kPacketLimit : 0);
  const std::size_t waiting = ways_[at(from)].waiting + sizeof(Inbound) + frame.size();
  if (handler_ != nullptr || waiting <= room) return deliver({from, false, std::move(frame)});
  hang_up(from);
  deliver({from, true, {}, Ending::senseless});
}

/// The peer hung up, or can be reached no more.
void Topic::lose(Rank member, Ending why) {
  const Rank from = rank_of(member);
  if (from == kNoRank) return;
  if (why == Ending::gone) ways_[at(from)].out = false;
  close(from, why);
}

/// The plane has closed all sockets, and has no memory to say so peer by peer.
void Topic::cut() noexcept {
  for (Way& way : ways_) way.in = Way::In::closed, way.out = false;
}

/// The peers that have not hung up on this end.
std::set<Rank> Topic::unheard() const {
  std::set<Rank> ranks;
  for (Rank peer = 0; peer < size(); ++peer) {
    if (ways_[at(peer)].in == Way::In::unheard) ranks.insert(members_[at(peer)]);
  }
  return ranks;
}

/// Nothing more comes from the peer, and it hears nothing.
void Topic::close(Rank peer, Ending why) {
  const Way::In before = std::exchange(ways_[at(peer)].in, Way::In::closed);
  hang_up(peer);
  if (before == Way::In::open) deliver({peer, true, {}, why});
}

void Topic::deliver(Inbound inbound) {
  if (handler_ == nullptr) {
    const std::size_t counts = sizeof inbound + inbound.frame.size();
    std::size_t& waiting = ways_[at(inbound.from)].waiting;
    inbox_.push_back(std::move(inbound));
    waiting += counts;
    arrived_.notify_all();
    return;
  }
  try {
    if (inbound.closed) {
      handler_->on_closed(inbound.from, inbound.why);
    } else {
      handler_->on_frame(inbound.from, inbound.frame);
    }
  } catch (const std::exception&) {
    fail(status_of_exception());
  }
  settle();
}

/// The handler has changed: its time too, perhaps.
void Topic::settle() {
  plane_->thread_->turn(*this, Clock::now());
}

Deadline Topic::on_turn(Deadline now) noexcept {
  if (handler_ == nullptr) return Deadline::max();
  try {
    return handler_->on_time(now);
  } catch (const std::exception&) {
    fail(status_of_exception());
    return now;
  }
}

/// Without a handler, a receiver has lost a frame: hangs up on all peers.
void Topic::fail(const Status& failure) noexcept {
  if (handler_ != nullptr) return handler_->on_failure(failure);
  hang_up_all();
  failure_ = failure;
  arrived_.notify_all();
}

}  // namespace coll
