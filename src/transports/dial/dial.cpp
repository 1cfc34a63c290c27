// SPDX-License-Identifier: Apache-2.0
// Ends made, and who dials in judged.
#include "transports/dial/dial.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/erase_over.hpp"
#include "base/log.hpp"
#include "sys/net/socket.hpp"
#include "transports/dial/dial_tuning.hpp"

namespace coll {
namespace {

using std::chrono::seconds;
constexpr seconds kGreetingTime{30};  // for a guest to say who it is
constexpr seconds kSafeTime{1};       // in which no crowd of others pushes it out
constexpr std::size_t kGuests = 256;  // unknown ones at once, and a few more per rank

}  // namespace

/// It takes itself out of `waiting` when it settles.
class Dial::End final : public DialledEnd {
 public:
  End(const ConnectionSpec& spec, const DialOffer& offer, std::unique_ptr<Dialer> dialer,
      std::vector<End*>& waiting)
      : spec_(spec), offer_(offer), dialer_(std::move(dialer)), waiting_(waiting) {
    waiting_.push_back(this);
  }
  ~End() override { std::erase(waiting_, this); }

  std::optional<Result<Dialled>> take() override { return std::exchange(answer_, std::nullopt); }

  [[nodiscard]] const ConnectionSpec& spec() const { return spec_; }
  [[nodiscard]] const DialOffer& offer() const { return offer_; }
  /// It does not dial.
  [[nodiscard]] bool waits_for_dial() const { return dialer_ == nullptr; }
  void poll() {
    Result<Fd> socket = dialer_->poll();
    if (!socket.ok()) return settle(socket.status());
    if (*socket) settle(Dialled{*std::move(socket), dialer_->theirs()});
  }
  void settle(Result<Dialled> answer) {
    std::erase(waiting_, this);
    answer_ = std::move(answer);
  }

 private:
  const ConnectionSpec spec_;
  const DialOffer offer_;
  std::unique_ptr<Dialer> dialer_;
  std::vector<End*>& waiting_;
  std::optional<Result<Dialled>> answer_;
};

Dial::Dial(const TransportSpec& spec, DialWire wire, std::vector<InterfaceAddress> addresses,
           std::string identity, Listeners listeners)
    : spec_(spec), wire_(wire), addresses_(std::move(addresses)), listeners_(std::move(listeners)) {
  const std::vector<NetAddress> heard = listeners_.addresses();
  descriptor_.wire = wire;
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

Result<std::unique_ptr<Dial>> Dial::open(const TransportSpec& spec, DialWire wire) {
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
  for (const Fd& socket : listeners.sockets()) tune_dialling(socket.get());
  return std::unique_ptr<Dial>(
      new Dial(spec, wire, std::move(addresses), std::move(identity), std::move(listeners)));
}

Status Dial::accepts(std::string_view peer_descriptor) const {
  COLL_ASSIGN(const DialDescriptor peer, DialDescriptor::parse(peer_descriptor, wire_));
  return dial_accepts(descriptor_, peer);
}

bool Dial::one_kernel(std::string_view peer_descriptor) const {
  const Result<DialDescriptor> peer = DialDescriptor::parse(peer_descriptor, wire_);
  return peer.ok() && of_one_kernel(descriptor_, *peer);
}

Result<std::unique_ptr<DialledEnd>> Dial::begin(const ConnectionSpec& connection,
                                                const DialOffer& mine,
                                                std::string_view peer_descriptor) {
  COLL_TRY(check_connection(spec_, connection));
  COLL_ASSIGN(const DialDescriptor peer, DialDescriptor::parse(peer_descriptor, wire_));
  COLL_TRY(dial_accepts(descriptor_, peer));
  const auto same = [&](const End* other) {
    return other->spec().peer == connection.peer && other->spec().lane == connection.lane;
  };
  if (std::ranges::any_of(waiting_, same)) {
    return failed(Code::invalid_usage,
                  std::string(wire_.name) + ": this connection is being opened already")
        .at_rank(connection.peer);
  }
  std::unique_ptr<Dialer> dialer;
  if (spec_.rank > connection.peer) {
    dialer = std::make_unique<Dialer>(wire_, spec_, connection, mine,
                                      dial_ways(addresses_, descriptor_.identity, peer), ready_);
  }
  pairs_ = true;
  return std::unique_ptr<DialledEnd>(
      std::make_unique<End>(connection, mine, std::move(dialer), waiting_));
}

void Dial::poll() {
  ready_.collect();
  let_in();
  erase_over(guests_, [&](Guest& guest) { return !listen_to(guest); });
  if (std::exchange(pairs_, false)) {
    erase_over(guests_, [&](Guest& guest) { return guest.known && connect(guest); });
  }
  const std::vector<End*> waiting = waiting_;  // those that settle take themselves out
  for (End* one : waiting) {
    if (!one->waits_for_dial()) one->poll();
  }
  if (waiting_.empty() && guests_.empty()) ready_.clear();
}

void Dial::drop(const NetAddress& who, const std::string& why) const {
  if (log_enabled(LogLevel::debug)) {
    log(LogLevel::debug,
        std::string(wire_.name) + ": dropped a stranger at " + who.text() + ": " + why);
  }
}

/// Accepts who has dialled. A crowd waits outside rather than push out who has just come in.
void Dial::let_in() {
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
    const Result<DialGreeting> challenge = dial_challenge(wire_);
    const Status sent = challenge.ok() ? dial_send(fd->get(), *challenge) : challenge.status();
    if (!sent.ok()) {
      drop(address, sent.text());
      continue;
    }
    ready_.add(fd->get());
    guests_.push_back({*std::move(fd), address, Clock::now(), challenge->nonce});
  }
}

/// Reads on what a guest has to say; false if it is to go.
bool Dial::listen_to(Guest& guest) {
  const bool news = ready_.has(guest.fd.get());
  if (guest.known) {
    if (!news) return true;
    // It has to wait for the answer, so all that can come is its end.
    std::byte byte{};
    return recv_some(guest.fd.get(), {&byte, 1}).would_block();
  }
  switch (news ? guest.reader.read(guest.fd.get()) : DialGreetingReader::State::incomplete) {
    case DialGreetingReader::State::incomplete:
      if (Clock::now() - guest.since < kGreetingTime) return true;
      drop(guest.address, "it said " + std::to_string(guest.reader.bytes()) + " bytes and no more");
      return false;
    case DialGreetingReader::State::closed:
      drop(guest.address, "it went away");
      return false;
    case DialGreetingReader::State::complete:
      break;
  }
  if (const std::string why = dial_stranger(guest.reader.greeting(), wire_, spec_, guest.nonce);
      !why.empty()) {
    drop(guest.address, why);
    return false;
  }
  guest.known = pairs_ = true;
  return true;
}

/// Makes a connection of a guest, if this end is open; true when the guest is used up.
bool Dial::connect(Guest& guest) {
  const DialGreeting& hello = guest.reader.greeting();
  const auto found = std::ranges::find_if(waiting_, [&](const End* one) {
    return one->waits_for_dial() && one->spec().peer == hello.from &&
           one->spec().lane == hello.lane;
  });
  if (found == waiting_.end()) return false;
  End& end = **found;
  const Status agreed = dial_agree(hello, wire_, end.spec());
  const auto answer =
      dial_greeting(wire_, spec_, end.spec(), end.offer(),
                    agreed.ok() ? DialGreeting::Verdict::welcome : DialGreeting::Verdict::refused,
                    guest.nonce, hello.nonce);
  const Status sent = dial_send(guest.fd.get(), answer);
  if (!agreed.ok()) {
    end.settle(agreed);
  } else if (sent.ok()) {
    tune_connected(guest.fd.get());
    end.settle(Dialled{std::move(guest.fd), hello.offer});
  }
  return true;
}

/// No connection can come in any more: whoever waits for one has to know.
void Dial::fail_accepting(const Status& status) {
  const std::vector<End*> waiting = waiting_;
  for (End* one : waiting) {
    if (one->waits_for_dial()) one->settle(status);
  }
}

}  // namespace coll
