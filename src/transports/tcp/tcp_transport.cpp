// SPDX-License-Identifier: Apache-2.0
// Opens connections, and judges who dials in.
#include "transports/tcp/tcp_transport.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "base/erase_over.hpp"
#include "base/log.hpp"
#include "sys/net/socket.hpp"
#include "transports/tcp/tcp_tuning.hpp"

namespace coll {
namespace {

using std::chrono::seconds;
constexpr seconds kGreetingTime{30};  // for a guest to say who it is
constexpr seconds kSafeTime{1};       // in which no crowd of others pushes it out
constexpr std::size_t kGuests = 256;  // unknown ones at once, and a few more per rank

void drop(const NetAddress& who, const std::string& why) {
  if (log_enabled(LogLevel::debug)) {
    log(LogLevel::debug, "tcp: dropped a stranger at " + who.text() + ": " + why);
  }
}

}  // namespace

TcpTransport::TcpTransport(const TransportSpec& spec, std::vector<InterfaceAddress> addresses,
                           std::string identity, Listeners listeners)
    : spec_(spec), addresses_(std::move(addresses)), listeners_(std::move(listeners)) {
  const std::vector<NetAddress> heard = listeners_.addresses();
  descriptor_.port = listeners_.port();
  descriptor_.identity = std::move(identity);
  for (const InterfaceAddress& one : addresses_) {
    const NetAddress address = one.address.with_port(descriptor_.port);
    // Everywhere is so by one socket of both families, or of IPv4 where there is no IPv6.
    const bool listened = heard.front().is_any()
                              ? heard.front().family() == AF_INET6 || address.family() == AF_INET
                              : std::ranges::count(heard, address) > 0;
    if (listened && std::ranges::count(descriptor_.addresses, address.with_scope(0)) == 0) {
      descriptor_.addresses.push_back(address.with_scope(0));
    }
  }
  text_ = descriptor_.text();
}

Result<std::unique_ptr<Transport>> TcpTransport::make(const TransportSpec& spec) {
  COLL_ASSIGN(std::vector<InterfaceAddress> addresses, host_addresses(spec.interface));
  COLL_ASSIGN(std::vector<NetAddress> published, listening_addresses(spec.interface));
  if (published.empty() && spec.one_network) {
    // Unless loopback is down here.
    const auto loopback = [](const InterfaceAddress& one) { return one.address.is_loopback(); };
    if (std::ranges::any_of(addresses, loopback)) std::erase_if(addresses, std::not_fn(loopback));
    for (const InterfaceAddress& one : addresses) published.push_back(one.address);
  }
  // It reads files, so it comes before the listeners take what may be the last descriptor.
  std::string identity = network_identity();
  COLL_ASSIGN(Listeners listeners, Listeners::open(published));
  for (const Fd& socket : listeners.sockets()) tcp_tune_early(socket.get());
  return std::unique_ptr<Transport>(
      new TcpTransport(spec, std::move(addresses), std::move(identity), std::move(listeners)));
}

Result<std::unique_ptr<Transport>> make_tcp_transport(const TransportSpec& spec) {
  return TcpTransport::make(spec);
}

Transport::Limits TcpTransport::limits() const {
  // What is combined on arrival should still be in the cache; what is not goes into its place.
  return {.slot_bytes = 1 << 20, .slice_bytes = 256 << 10, .credits = 2};
}

Status TcpTransport::accepts(std::string_view peer_descriptor) const {
  COLL_ASSIGN(const TcpDescriptor peer, TcpDescriptor::parse(peer_descriptor));
  return tcp_accepts(descriptor_, peer);
}

PathCapabilities TcpTransport::path(std::string_view peer_descriptor) const {
  const Result<TcpDescriptor> peer = TcpDescriptor::parse(peer_descriptor);
  const bool one_kernel = peer.ok() && of_one_kernel(descriptor_, *peer);
  return {.medium = one_kernel ? PathMedium::kernel : PathMedium::network};
}

Result<std::unique_ptr<Connection>> TcpTransport::open(const ConnectionSpec& spec,
                                                       std::string_view peer_descriptor) {
  COLL_TRY(check_connection(spec_, spec));
  COLL_ASSIGN(const TcpDescriptor peer, TcpDescriptor::parse(peer_descriptor));
  COLL_TRY(tcp_accepts(descriptor_, peer));
  const auto same = [&](const TcpConnection* other) {
    return other->spec().peer == spec.peer && other->spec().lane == spec.lane;
  };
  if (std::ranges::any_of(waiting_, same)) {
    return failed(Code::invalid_usage, "tcp: this connection is being opened already")
        .at_rank(spec.peer);
  }
  std::unique_ptr<TcpDialer> dialer;
  if (spec_.rank > spec.peer) {
    dialer = std::make_unique<TcpDialer>(spec_, spec,
                                         tcp_ways(addresses_, descriptor_.identity, peer), ready_);
  }
  pairs_ = true;
  return std::unique_ptr<Connection>(
      std::make_unique<TcpConnection>(spec, std::move(dialer), waiting_, progress_));
}

void TcpTransport::poll() {
  ready_.collect();
  let_in();
  erase_over(guests_, [&](Guest& guest) { return !listen_to(guest); });
  if (std::exchange(pairs_, false)) {
    erase_over(guests_, [&](Guest& guest) { return guest.known && connect(guest); });
  }
  const TcpConnection::Waiting waiting = waiting_;  // those that settle take themselves out
  for (TcpConnection* one : waiting) {
    if (!one->waits_for_dial()) one->poll_dial();
  }
  if (waiting_.empty() && guests_.empty()) ready_.clear();
}

/// Accepts who has dialled. A crowd waits outside rather than push out who has just come in.
void TcpTransport::let_in() {
  const std::size_t room = kGuests + 16 * static_cast<std::size_t>(spec_.size);
  for (;;) {
    const auto oldest = std::ranges::find(guests_, false, &Guest::known);
    if (guests_.size() >= room && oldest != guests_.end()) {
      if (Clock::now() - oldest->since < kSafeTime) return;
      drop(oldest->address, "too many others came");
      guests_.erase(oldest);
    }
    Result<Fd> fd = listeners_.accept();
    if (!fd.ok()) {
      const auto idle = std::ranges::find(guests_, false, &Guest::known);
      if (idle == guests_.end()) return fail_accepting(fd.status());
      drop(idle->address, fd.status().text());
      guests_.erase(idle);
      return;
    }
    if (!*fd) return;
    const NetAddress address = remote_address(fd->get());
    const Result<TcpGreeting> challenge = tcp_challenge();
    const Status sent = challenge.ok() ? tcp_send(fd->get(), *challenge) : challenge.status();
    if (!sent.ok()) {
      drop(address, sent.text());
      continue;
    }
    ready_.add(fd->get());
    guests_.push_back({*std::move(fd), address, Clock::now(), challenge->nonce});
  }
}

/// Reads on what a guest has to say; false if it is to go.
bool TcpTransport::listen_to(Guest& guest) {
  const bool news = ready_.has(guest.fd.get());
  if (guest.known) {
    if (!news) return true;
    // It has to wait for the answer, so all that can come is its end.
    std::byte byte{};
    return recv_some(guest.fd.get(), {&byte, 1}).would_block();
  }
  switch (news ? guest.reader.read(guest.fd.get()) : TcpGreetingReader::State::incomplete) {
    case TcpGreetingReader::State::incomplete:
      if (Clock::now() - guest.since < kGreetingTime) return true;
      drop(guest.address, "it said " + std::to_string(guest.reader.bytes()) + " bytes and no more");
      return false;
    case TcpGreetingReader::State::closed:
      drop(guest.address, "it went away");
      return false;
    case TcpGreetingReader::State::complete:
      break;
  }
  if (const std::string why = tcp_stranger(guest.reader.greeting(), spec_, guest.nonce);
      !why.empty()) {
    drop(guest.address, why);
    return false;
  }
  guest.known = pairs_ = true;
  return true;
}

/// Makes a connection of a guest, if this end is open; true when the guest is used up.
bool TcpTransport::connect(Guest& guest) {
  const TcpGreeting& hello = guest.reader.greeting();
  const auto found = std::ranges::find_if(waiting_, [&](const TcpConnection* one) {
    return one->waits_for_dial() && one->spec().peer == hello.from &&
           one->spec().lane == hello.lane;
  });
  if (found == waiting_.end()) return false;
  TcpConnection& connection = **found;
  const Status agreed = tcp_agree(hello, connection.spec());
  const auto answer =
      tcp_greeting(spec_, connection.spec(),
                   agreed.ok() ? TcpGreeting::Verdict::welcome : TcpGreeting::Verdict::refused,
                   guest.nonce, hello.nonce);
  const Status sent = tcp_send(guest.fd.get(), answer);
  if (!agreed.ok()) {
    connection.settle(agreed);
  } else if (sent.ok()) {
    tcp_tune_connected(guest.fd.get());
    connection.settle(std::move(guest.fd));
  }
  return true;
}

/// No connection can come in any more: whoever waits for one has to know.
void TcpTransport::fail_accepting(const Status& status) {
  const TcpConnection::Waiting waiting = waiting_;
  for (TcpConnection* one : waiting) {
    if (one->waits_for_dial()) one->settle(status);
  }
}

}  // namespace coll
