// SPDX-License-Identifier: Apache-2.0
// Which of many sockets are busy, by epoll.
#include "rendezvous/exchange/hub_links.hpp"

#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <cerrno>

#include "rendezvous/exchange/exchange_words.hpp"
#include "sys/net/socket.hpp"

namespace coll {

namespace {
constexpr std::uint32_t kClosed = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
}  // namespace

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT);

HubLinks::HubLinks(Meeting& meeting)
    : meeting_(meeting),
      ready_(epoll_create1(EPOLL_CLOEXEC)),
      wanted_(meeting.links.size()),
      gone_(wanted_) {
  for (Fd& fd : meeting.links) links_.emplace_back(std::move(fd), kTextLimit + 64);
  watched_.resize(links_.size());
}

HubLinks::~HubLinks() {
  for (std::size_t i = 0; i < links_.size(); ++i) meeting_.links[i] = links_[i].take();
}

Status HubLinks::begin() const {
  return ready_ ? Status() : system_failure("exchange: an epoll descriptor", errno);
}

void HubLinks::want(Rank rank) {
  wanted_[at(rank)] = true;
  attend(rank);
}

void HubLinks::send(Rank rank, std::shared_ptr<const std::string> frame) {
  links_[at(rank)].send(std::move(frame));
  attend(rank);
}

std::string HubLinks::door(Rank rank, std::uint16_t port) const {
  const NetAddress address = remote_address(links_[at(rank)].fd());
  if (address.is_loopback() && !meeting_.one_network) return ":" + std::to_string(port);
  // A link-local one's scope means something on this host only.
  const bool anywhere = address.family() != 0 && !address.is_link_local();
  return anywhere ? address.with_port(port).text() : "";
}

std::vector<Rank> HubLinks::sending() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < meeting_.size; ++rank) {
    if (links_[at(rank)].sending()) ranks.push_back(rank);
  }
  return ranks;
}

Result<std::vector<HubLinks::Heard>> HubLinks::turn(Deadline until) {
  std::array<epoll_event, 256> events{};
  const int count = ::epoll_wait(ready_.get(), events.data(), static_cast<int>(events.size()),
                                 poll_timeout(until));
  if (count < 0 && errno != EINTR) return system_failure("exchange: waiting for ranks", errno);
  std::vector<Heard> all;
  for (int i = 0; i < count; ++i) {
    const Rank rank = static_cast<Rank>(events[static_cast<std::size_t>(i)].data.u32);
    FrameLink& link = links_[at(rank)];
    link.push();
    if (wanted_[at(rank)]) {
      Heard heard{rank, FrameLink::Got::nothing, {}};
      heard.got = link.receive(heard.frame);
      wanted_[at(rank)] = heard.got == FrameLink::Got::nothing;
      gone_[at(rank)] = heard.got == FrameLink::Got::closed;
      if (!wanted_[at(rank)]) all.push_back(std::move(heard));
    } else if ((events[static_cast<std::size_t>(i)].events & kClosed) != 0) {
      gone_[at(rank)] = true;
      all.push_back({rank, FrameLink::Got::closed, {}});
    }
    attend(rank);
  }
  if (!trouble_.ok()) return trouble_;
  return all;
}

void HubLinks::attend(Rank rank) {
  const FrameLink& link = links_[at(rank)];
  const std::uint32_t events = (wanted_[at(rank)] ? std::uint32_t{EPOLLIN} : 0) |
                               (link.sending() ? std::uint32_t{EPOLLOUT} : 0) |
                               (gone_[at(rank)] ? 0 : std::uint32_t{EPOLLRDHUP});
  if (events == watched_[at(rank)]) return;
  epoll_event event{};
  event.events = events;
  event.data.u32 = static_cast<std::uint32_t>(rank);
  // A link that is still watched would report that it is broken again and again.
  const int what = events == 0               ? EPOLL_CTL_DEL
                   : watched_[at(rank)] == 0 ? EPOLL_CTL_ADD
                                             : EPOLL_CTL_MOD;
  if (::epoll_ctl(ready_.get(), what, link.fd(), &event) != 0 && trouble_.ok()) {
    trouble_ = system_failure("exchange: watching for rank " + std::to_string(rank), errno);
  }
  watched_[at(rank)] = events;
}

}  // namespace coll
