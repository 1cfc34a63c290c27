// SPDX-License-Identifier: Apache-2.0
// Which of many descriptors have news.
#include "sys/net/ready_set.hpp"

#include <sys/epoll.h>

#include <array>

namespace coll {

void ReadySet::add(int fd) {
  if (!epoll_) epoll_ = Fd::kept_from_children([] { return epoll_create1(EPOLL_CLOEXEC); });
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.fd = fd;
  blind_ |= !epoll_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0;
}

void ReadySet::collect() {
  ready_.clear();
  if (!epoll_) return;
  std::array<epoll_event, 64> events;
  for (int got = static_cast<int>(events.size()); got == static_cast<int>(events.size());) {
    got = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < got; ++i) ready_.push_back(events[static_cast<std::size_t>(i)].data.fd);
  }
  std::ranges::sort(ready_);
}

void ReadySet::clear() {
  epoll_.reset();
  ready_.clear();
  blind_ = false;
}

}  // namespace coll
