// SPDX-License-Identifier: Apache-2.0
// The star that ranks keep after they have met, for all communicators that ride on it.
#include "control/control_plane.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/hash.hpp"
#include "control/topic_frame.hpp"
#include "rendezvous/exchange/exchange_words.hpp"
#include "rendezvous/handshake.hpp"
#include "sys/net/socket.hpp"

namespace coll {
namespace {

/// A topic's frames may bring all that its ranks say of themselves.
constexpr std::size_t kFrameLimit = kPacketLimit + TopicHeader::kBytes;
/// After this many frames or bytes of a socket it is the next socket's turn.
constexpr int kFramesInTurn = 64;
constexpr std::size_t kBytesInTurn = std::size_t{256} << 10;
/// The most that is held of a peer's frames for topics that are not open yet.
constexpr std::size_t kHeldBytes = std::size_t{16} << 20;
/// Beyond that, to note for which topics frames of the peer have been dropped.
constexpr std::size_t kHeldNotes = std::size_t{1} << 20;
/// What a held frame counts for beside its bytes: its entry, and at worst its topic's entry.
constexpr std::size_t kHeldEntry = 256;
/// Memory may run out this many times before the sockets are closed.
constexpr int kPlaneFailuresSurvived = 8;

/// Gives a host up after about ten seconds, whether it was sent something or is only asked.
void notice_dead_hosts(int fd) {
  constexpr int kIdleS = 5, kBetweenS = 2, kQuestions = 3;
  set_keepalive(fd, kIdleS, kBetweenS, kQuestions);
  const unsigned unanswered_ms = 10000;
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

}  // namespace

ControlPlane::ControlPlane(Meeting meeting)
    : rank_(meeting.rank),
      hub_(meeting.hub),
      job_{meeting.job[0], meeting.job[1]},
      one_network_(meeting.one_network),
      attended_(meeting.links.size()),
      held_bytes_(meeting.links.size()) {
  for (Fd& fd : meeting.links) {
    if (fd) notice_dead_hosts(fd.get());
    links_.emplace_back(std::move(fd), kFrameLimit);
  }
}

Status ControlPlane::begin() {
  COLL_ASSIGN(thread_, ControlThread::of_process());
  Status begun;
  {
    const std::lock_guard lock(mutex());
    thread_->enter(*this);
    for (Rank peer = 0; peer < size() && begun.ok(); ++peer) {
      if (!links_[at(peer)]) continue;
      attended_[at(peer)] = EPOLLIN;
      begun = thread_->attend(*this, static_cast<std::uint32_t>(peer), links_[at(peer)].fd(),
                              EPOLLIN, true);
    }
    if (!begun.ok()) retire();
  }
  if (!begun.ok()) thread_.reset();
  return begun;
}

ControlPlane::~ControlPlane() {
  if (!thread_) return;
  const std::lock_guard lock(mutex());
  retire();
  for (FrameLink& one : links_) {
    if (one) one.hang_up();
  }
}

/// The thread serves it no more.
void ControlPlane::retire() noexcept {
  for (const FrameLink& one : links_) {
    if (one) thread_->forget(one.fd());
  }
  thread_->leave(*this);
}

void ControlPlane::tell(std::string_view frame) {
  const auto shared = topic_frame(kFirstTopic, false, frame);
  for (FrameLink& one : links_) {
    if (one) one.send(shared);
  }
}

std::array<std::uint64_t, 2> ControlPlane::job_of(std::uint64_t topic) const {
  if (topic == kFirstTopic) return {job_[0], job_[1]};
  const std::string key = MessageWriter().u64(job_[0]).u64(job_[1]).bytes();
  std::uint64_t job[2];
  name_job(key, MessageWriter().u64(topic).bytes(), job);
  return {job[0], job[1]};
}

std::uint64_t ControlPlane::derived_topic(std::uint64_t topic, std::uint64_t number) {
  constexpr std::uint64_t kDerived = std::uint64_t{1} << 63;  // new_topic's are below
  return Fnv1a().word(topic).word(number).value() | kDerived;
}

std::uint64_t ControlPlane::new_topic() {
  const std::lock_guard lock(mutex());
  const auto mine = static_cast<std::uint64_t>(rank_) + 1;
  return mine << 32 | ++topics_named_;
}

std::unique_ptr<Topic> ControlPlane::open(std::uint64_t topic, std::vector<Rank> members) {
  auto opened = std::make_unique<Topic>(shared_from_this(), topic, std::move(members));
  const std::lock_guard lock(mutex());
  return enter(*opened) ? std::move(opened) : nullptr;
}

void ControlPlane::refuse(std::uint64_t topic, const std::vector<Rank>& members) noexcept {
  const std::lock_guard lock(mutex());
  if (topics_.contains(topic) || ending_.contains(topic)) return;
  try {
    std::set<Rank> unheard;
    for (const Rank member : members) {
      if (links_[at(member)]) unheard.insert(member);
    }
    const auto frame = topic_frame(topic, true, {});
    for (const Rank member : unheard) post(member, frame);
    for (const Held& one : take_held(topic)) {
      if (one.end == Topic::Ending::hung_up) unheard.erase(one.from);
    }
    if (!unheard.empty()) ending_.emplace(topic, std::move(unheard));
  } catch (const std::exception&) {
    // Without memory, the others wait until their deadline.
  }
}

std::unique_ptr<Topic> ControlPlane::open_first() {
  std::vector<Rank> all;
  for (Rank one = 0; one < size(); ++one) all.push_back(one);
  return open(kFirstTopic, std::move(all));
}

// --- with the mutex held

bool ControlPlane::enter(Topic& topic) {
  if (topics_.contains(topic.id()) || ending_.contains(topic.id())) return false;
  thread_->enter(topic);
  topic.entered_ = true;
  topics_.emplace(topic.id(), &topic);
  for (Held& one : take_held(topic.id())) {
    if (one.end) {
      topic.lose(one.from, *one.end);
    } else {
      topic.take(one.from, std::move(one.frame));
    }
  }
  for (const Rank member : topic.members()) {
    if (member != rank_ && !links_[at(member)]) topic.lose(member, Topic::Ending::gone);
  }
  return true;
}

void ControlPlane::leave(Topic& topic) noexcept {
  thread_->leave(topic);
  topics_.erase(topic.id());
  try {
    std::set<Rank> unheard = topic.unheard();
    if (!unheard.empty()) ending_.emplace(topic.id(), std::move(unheard));
  } catch (const std::exception&) {
    // Without memory, what still comes is held like a new topic's.
  }
}

void ControlPlane::on_news(std::uint32_t socket, std::uint32_t events) noexcept {
  const auto peer = static_cast<Rank>(socket);
  try {
    if ((events & EPOLLOUT) != 0 && links_[at(peer)]) links_[at(peer)].push(kBytesInTurn);
    if ((events & ~std::uint32_t{EPOLLOUT}) != 0) hear(peer);
    attend(peer);
  } catch (const std::exception&) {
    survive(status_of_exception());
  }
}

void ControlPlane::hear(Rank from) {
  std::string frame;
  std::size_t budget = kBytesInTurn;
  for (int i = 0; i < kFramesInTurn && links_[at(from)]; ++i) {
    switch (links_[at(from)].receive(frame, budget)) {
      case FrameLink::Got::nothing:
        return;
      case FrameLink::Got::frame:
        take(from, std::move(frame));
        break;
      case FrameLink::Got::closed:
        return lose(from, Topic::Ending::gone);
      case FrameLink::Got::garbage:
        return lose(from, Topic::Ending::senseless);
    }
  }
}

void ControlPlane::take(Rank from, std::string frame) {
  const auto header = TopicHeader::read(frame);
  if (!header) return lose(from, Topic::Ending::senseless);
  frame.erase(0, TopicHeader::kBytes);
  if (const auto topic = topics_.find(header->topic); topic != topics_.end()) {
    if (header->closing) return topic->second->lose(from, Topic::Ending::hung_up);
    return topic->second->take(from, std::move(frame));
  }
  const auto ending = ending_.find(header->topic);
  if (ending == ending_.end()) {
    std::optional<Topic::Ending> end;
    if (header->closing) end = Topic::Ending::hung_up;
    try {
      return hold(header->topic, {from, end, std::move(frame)});
    } catch (const std::exception&) {
      shut(from);  // or else whoever opens the topic would wait for what is lost here
      throw;
    }
  }
  if (header->closing) ending->second.erase(from);
  if (ending->second.empty()) ending_.erase(ending);
}

/// The peer is faster. Where it sends more than there is room for, the topic ends for it; where it
/// does so for more topics than can be noted, it is lost.
void ControlPlane::hold(std::uint64_t topic, Held held) {
  const Rank from = held.from;
  std::size_t& bytes = held_bytes_[at(from)];
  if (bytes + kHeldEntry + held.frame.size() > kHeldBytes) {
    std::vector<Held>& before = held_[topic];
    const auto last = std::ranges::find(before.rbegin(), before.rend(), from, &Held::from);
    if (last != before.rend() && last->end) return;
    held = {from, Topic::Ending::senseless, {}};
  }
  const std::size_t counts = kHeldEntry + held.frame.size();
  if (bytes + counts > kHeldBytes + kHeldNotes) {
    lose(from, Topic::Ending::senseless);
    return drop_held(from);
  }
  held_[topic].push_back(std::move(held));
  bytes += counts;
}

std::vector<ControlPlane::Held> ControlPlane::take_held(std::uint64_t topic) noexcept {
  auto held = held_.extract(topic);
  if (!held) return {};
  for (const Held& one : held.mapped()) {
    held_bytes_[at(one.from)] -= kHeldEntry + one.frame.size();
  }
  return std::move(held.mapped());
}

/// Drops the held frames of a peer that flooded. If a peer only died, topics that open later hear
/// its last words.
void ControlPlane::drop_held(Rank from) {
  for (auto& [topic, frames] : held_) {
    std::erase_if(frames, [from](const Held& one) { return one.from == from; });
  }
  std::erase_if(held_, [](const auto& one) { return one.second.empty(); });
  held_bytes_[at(from)] = 0;
}

void ControlPlane::post(Rank to, std::shared_ptr<const std::string> frame) {
  if (!links_[at(to)]) return;
  links_[at(to)].queue(std::move(frame));
  links_[at(to)].push(kBytesInTurn);
  attend(to);
}

void ControlPlane::attend(Rank peer) {
  const FrameLink& link = links_[at(peer)];
  if (!link) return;
  const std::uint32_t wanted = EPOLLIN | (link.sending() ? std::uint32_t{EPOLLOUT} : 0);
  if (wanted == std::exchange(attended_[at(peer)], wanted)) return;
  // It can only fail for want of what the socket has had from the beginning.
  [[maybe_unused]] const Status attended =
      thread_->attend(*this, static_cast<std::uint32_t>(peer), link.fd(), wanted, false);
}

/// The peer's process is gone, or has left all topics, or makes no sense.
void ControlPlane::lose(Rank peer, Topic::Ending why) {
  hang_up(peer);
  for (const auto& [id, topic] : topics_) topic->lose(peer, why);
  for (auto& [id, ranks] : ending_) ranks.erase(peer);
  std::erase_if(ending_, [](const auto& one) { return one.second.empty(); });
}

/// The thread will hear of it, and so all topics.
void ControlPlane::shut(Rank peer) noexcept {
  if (links_[at(peer)]) links_[at(peer)].shut();
}

void ControlPlane::hang_up(Rank peer) noexcept {
  if (!links_[at(peer)]) return;
  thread_->forget(links_[at(peer)].fd());
  links_[at(peer)].hang_up();
}

/// Memory ran out, and what a frame said is lost: that is a failure of this rank, in every topic.
/// Where there is none even to say so, the sockets are closed, which tells the others.
void ControlPlane::survive(const Status& failure) noexcept {
  const bool over = ++failures_survived_ > kPlaneFailuresSurvived;
  for (Rank peer = 0; over && peer < size(); ++peer) hang_up(peer);
  for (const auto& [id, topic] : topics_) {
    if (over) topic->cut();
    topic->fail(failure);
    topic->ask();
  }
}

}  // namespace coll
