// SPDX-License-Identifier: Apache-2.0
// A port that is free at all addresses, found and served.
#include "sys/net/listeners.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "sys/net/socket.hpp"

namespace coll {
namespace {

constexpr int kPortsTried = 32;  // that the system chose at one address and another one lacks

}  // namespace

Status Listeners::listen_at_each(const std::vector<NetAddress>& addresses, std::uint16_t port) {
  sockets_.clear();
  Status absent;
  for (const NetAddress& address : addresses) {
    Result<Fd> socket = listen_at(address.with_port(port));
    if (!socket.ok()) {
      const int error = socket.status().failure()->error;
      if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) return socket.status();
      absent = socket.status();
      continue;
    }
    sockets_.push_back(*std::move(socket));
    port = this->port();
  }
  return sockets_.empty() ? absent : Status();
}

Result<Listeners> Listeners::open(const std::vector<NetAddress>& addresses, std::uint16_t port) {
  Listeners made;
  if (addresses.empty()) {
    COLL_ASSIGN(Fd socket, listen_everywhere(port));
    made.sockets_.push_back(std::move(socket));
    return made;
  }
  Status opened;
  for (int tried = 0; tried < kPortsTried; ++tried) {
    opened = made.listen_at_each(addresses, port);
    if (opened.ok() || port != 0 || opened.failure()->error != EADDRINUSE) break;
  }
  COLL_TRY(opened);
  if (made.sockets_.size() == 1) return made;
  made.ready_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!made.ready_) return system_failure("making a set of listening sockets", errno);
  for (const Fd& socket : made.sockets_) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(made.ready_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
      return system_failure("watching several listening sockets", errno);
    }
  }
  return made;
}

std::uint16_t Listeners::port() const {
  return sockets_.empty() ? std::uint16_t{0} : local_address(sockets_.front().get()).port();
}

std::vector<NetAddress> Listeners::addresses() const {
  std::vector<NetAddress> all;
  for (const Fd& socket : sockets_) all.push_back(local_address(socket.get()));
  return all;
}

std::string Listeners::text() const {
  std::string text;
  for (const NetAddress& one : addresses()) {
    text += text.empty() ? "" : ", ";
    text += one.is_any() ? "all addresses, port " + std::to_string(one.port()) : one.text();
  }
  return text;
}

bool Listeners::beyond_loopback() const {
  return !std::ranges::all_of(addresses(), &NetAddress::is_loopback);
}

Result<Fd> Listeners::accept() {
  // Most often nobody waits, and one question is enough.
  if (ready_ && !has_caller(ready_.get())) return Fd();
  for (std::size_t asked = 0; asked < sockets_.size(); ++asked) {
    const std::size_t socket = first_;
    first_ = (first_ + 1) % sockets_.size();
    Result<Fd> next = accept_next(sockets_[socket].get());
    if (!next.ok() || *next) return next;
  }
  return Fd();
}

}  // namespace coll
