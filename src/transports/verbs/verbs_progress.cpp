// SPDX-License-Identifier: Apache-2.0
// Completion queues polled, armed before naps, and the sockets watched.
#include "transports/verbs/verbs_progress.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "sys/clock.hpp"
#include "transports/verbs/verbs_connection.hpp"

namespace coll {

Result<std::unique_ptr<VerbsProgress>> VerbsProgress::make(
    const std::vector<std::unique_ptr<VerbsDevice>>& devices) {
  std::unique_ptr<VerbsProgress> made(new VerbsProgress(devices));
  made->epoll_ = Fd::kept_from_children([] { return epoll_create1(EPOLL_CLOEXEC); });
  if (!made->epoll_) return system_failure("verbs: making an epoll set", errno);
  for (const auto& device : devices) {
    COLL_TRY(made->watch(device->wait_fd()));
    COLL_TRY(made->watch(device->event_fd()));
  }
  return made;
}

Status VerbsProgress::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return system_failure("verbs: watching a descriptor", errno);
}

std::uint32_t VerbsProgress::take_id(VerbsConnection& connection) {
  by_id_.push_back(&connection);
  return static_cast<std::uint32_t>(by_id_.size() - 1);
}

Status VerbsProgress::add(VerbsConnection& connection) {
  all_.push_back(&connection);
  return watch(connection.ways().control().fd());
}

void VerbsProgress::remove(VerbsConnection& connection) {
  std::ranges::replace(by_id_, &connection, static_cast<VerbsConnection*>(nullptr));
  if (std::erase(all_, &connection) > 0)
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.ways().control().fd(), nullptr);
}

bool VerbsProgress::take_completions() {
  std::array<ibv_wc, 32> completions;
  bool any = false;
  for (const auto& device : devices_) {
    for (;;) {
      const Result<int> got =
          device->poll(completions.data(), static_cast<int>(completions.size()));
      if (!got.ok()) {
        fail_all(got.status());
        break;
      }
      if (*got == 0) break;
      any = true;
      for (int i = 0; i < *got; ++i) {
        const ibv_wc& one = completions[static_cast<std::size_t>(i)];
        const std::uint32_t id = VerbsPair::id_of(one.wr_id);
        if (id < by_id_.size() && by_id_[id] != nullptr) by_id_[id]->ways().complete(one);
      }
    }
  }
  return any;
}

void VerbsProgress::fail_all(const Status& why) {
  for (VerbsConnection* one : all_) one->has_failed(why);
}

void VerbsProgress::progress() {
  const bool was_armed = std::exchange(armed_, false);
  if (was_armed) {
    for (const auto& device : devices_) device->disarm();
  }
  take_completions();
  const bool all = was_armed || ++rounds_ % kRoundsToLook == 0;
  if (all) {
    for (const auto& device : devices_) device->take_events();
  }
  if (!all && !attention_) return;
  // What is not told by completions takes system calls.
  constexpr std::uint64_t kBetweenLooksNs = 20'000;
  const std::uint64_t now = now_ns();
  if (!was_armed && now < next_look_ns_) return;
  next_look_ns_ = now + kBetweenLooksNs;
  look(all);
}

/// Who has gone says no more, and its socket would end each nap at once.
void VerbsProgress::look(bool at_all) {
  attention_ = false;
  for (VerbsConnection* one : all_) {
    VerbsWays& ways = one->ways();
    if (ways.peer_gone()) continue;
    if (at_all || ways.wants_look()) ways.look();
    attention_ |= ways.wants_look();
  }
  std::erase_if(all_, [this](VerbsConnection* one) {
    if (!one->ways().peer_gone()) return false;
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one->ways().control().fd(), nullptr);
    return true;
  });
}

bool VerbsProgress::has_news() {
  armed_ = true;
  for (const auto& device : devices_)
    if (const Status armed = device->arm(); !armed.ok()) fail_all(armed);
  return take_completions();
}

}  // namespace coll
