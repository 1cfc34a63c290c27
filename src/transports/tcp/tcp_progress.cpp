// SPDX-License-Identifier: Apache-2.0
// Which of a transport's TCP connections have news, from one epoll set.
#include "transports/tcp/tcp_progress.hpp"

#include <sys/epoll.h>

#include <array>

#include "sys/clock.hpp"
#include "transports/tcp/tcp_connection.hpp"

namespace coll {
namespace {

constexpr std::uint64_t kSilenceCheckNs = 1'000'000'000;
constexpr std::uint32_t kOver = EPOLLRDHUP | EPOLLHUP | EPOLLERR;

}  // namespace

void TcpProgress::add(TcpConnection& connection) {
  // No allocation may fail later, where nobody could be told.
  const std::size_t needed = all_.size() + 1;
  for (auto* list : {&all_, &unwatched_, &unread_, &unsent_}) {
    if (list->capacity() < needed) list->reserve(2 * needed);
  }
  // Here and not before the first nap, which is in a call: this locks and allocates.
  if (!epoll_) epoll_ = Fd::kept_from_children([] { return epoll_create1(EPOLL_CLOEXEC); });
  all_.push_back(&connection);
  unwatched_.push_back(&connection);
}

void TcpProgress::remove(TcpConnection& connection) {
  if (std::erase(all_, &connection) == 0) return;
  unwatch(connection);
  for (auto* list : {&unwatched_, &unread_, &unsent_}) std::erase(*list, &connection);
}

void TcpProgress::unwatch(TcpConnection& connection) {
  if (!connection.watch(false)) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.socket(), nullptr);
  unwatched_.push_back(&connection);
}

/// False: the system cannot.
bool TcpProgress::watch_all() {
  if (!epoll_ || without_epoll_) return false;
  while (!unwatched_.empty()) {
    TcpConnection& connection = *unwatched_.back();
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = &connection;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.socket(), &event) != 0) {
      without_epoll_ = true;
      return false;
    }
    connection.watch(true);
    unwatched_.pop_back();
  }
  return true;
}

void TcpProgress::progress() {
  by_news_ = vain_ > kFew && watch_all();
  fresh_ = false;
  ++rounds_;
  // Callers that try all connections need no other look.
  if (by_news_ || (vain_ < all_.size() && rounds_ % kRoundsToLook == 0)) {
    if (unwatched_.size() > kFew) watch_all();
    fresh_ = take_news();
    for (TcpConnection* one : unwatched_) one->look();
  }
  std::erase_if(unsent_, [](TcpConnection* one) { return one->push(); });
  notice_silence();
  vain_ = 0;
}

bool TcpProgress::has_news() {
  if (!watch_all()) return false;  // the nap ends by itself
  const bool news = take_news() || fresh_;
  fresh_ = false;
  std::erase_if(unsent_, [](TcpConnection* one) { return one->push(); });
  return news;
}

/// Asks epoll, and takes what came into slots. False if nothing is new.
bool TcpProgress::take_news() {
  if (!epoll_) return false;
  std::array<epoll_event, 64> events;
  bool news = false;
  for (int got = static_cast<int>(events.size()); got == static_cast<int>(events.size());) {
    got = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < got; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      auto& connection = *static_cast<TcpConnection*>(event.data.ptr);
      if (connection.take_note((event.events & kOver) != 0)) unread_.push_back(&connection);
      news = true;
    }
  }
  const bool before = by_news_;
  by_news_ = true;  // what epoll has not said is not there
  std::erase_if(unread_, [](TcpConnection* one) { return one->drained(); });
  by_news_ = before;
  return news;
}

/// Keepalive sees a silent host only while nothing is under way to it; this sees the rest.
void TcpProgress::notice_silence() {
  const std::uint64_t now = now_ns();
  if (now < silence_check_ns_) return;
  silence_check_ns_ = now + kSilenceCheckNs;
  for (TcpConnection* one : all_) one->notice_silence();
}

}  // namespace coll
