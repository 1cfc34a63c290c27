// SPDX-License-Identifier: Apache-2.0
// The ways to a peer, tried side by side.
#include "transports/dial/dialer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "transports/dial/dial_tuning.hpp"

namespace coll {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kStagger{250};     // before the next way is tried beside one that is silent
constexpr milliseconds kDoubt{2000};      // the same for one that has connected but not answered
constexpr milliseconds kPatience{20000};  // for an address to connect at all

}  // namespace

Dialer::Dialer(DialWire wire, const TransportSpec& self, const ConnectionSpec& connection,
               const DialOffer& offer, const std::vector<NetAddress>& ways, ReadySet& ready)
    : wire_(wire), self_(self), connection_(connection), mine_(offer), ready_(ready) {
  for (const NetAddress& address : ways) ways_.push_back({.address = address});
}

/// Nobody is being tried, or everybody has been silent for long enough.
bool Dialer::want_another() const {
  const auto now = Clock::now();
  return std::ranges::none_of(ways_, [&](const Way& way) {
    return (way.state == Way::State::dialling && now - way.since < kStagger) ||
           ((way.state == Way::State::connected || way.state == Way::State::greeted) &&
            now - way.since < kDoubt);
  });
}

void Dialer::give_up(Way& way, Status why) {
  way.fd.reset();
  way.state = Way::State::failed;
  way.failure = std::move(why);
}

void Dialer::start(Way& way) {
  Result<Fd> fd = begin_dial(way.address, &tune_dialling);
  if (!fd.ok()) return give_up(way, fd.status());
  way.fd = *std::move(fd);
  ready_.add(way.fd.get());
  way.state = Way::State::dialling;
  way.since = Clock::now();
}

void Dialer::move_on(Way& way) {
  const bool news = way.fd && ready_.has(way.fd.get());
  if (way.state == Way::State::dialling) {
    const Result<bool> connected = news ? check_dial(way.fd.get()) : Result<bool>(false);
    if (!connected.ok()) return give_up(way, connected.status());
    if (!*connected) {
      if (Clock::now() - way.since < kPatience) return;
      return give_up(way, system_failure("connecting", ETIMEDOUT));
    }
    way.state = Way::State::connected;
    way.since = Clock::now();
  }
  if (!news) return;
  if (way.state == Way::State::connected && has_read(way, way.challenge)) greet(way);
  if (way.state != Way::State::greeted || !has_read(way, way.answer)) return;
  const DialGreeting& answer = way.answer.greeting();
  std::string why = dial_stranger(answer, wire_, self_, way.nonce);
  if (why.empty() && answer.from != connection_.peer) {
    why = "it is rank " + std::to_string(answer.from);
  }
  if (!why.empty()) give_up(way, failed(Code::unreachable, "somebody else answers: " + why));
}

/// Reads on; true when all is there.
bool Dialer::has_read(Way& way, DialGreetingReader& reader) {
  switch (reader.read(way.fd.get())) {
    case DialGreetingReader::State::complete:
      return true;
    case DialGreetingReader::State::closed:
      give_up(way, failed(Code::unreachable, "closed without an answer", {}, reader.error()));
      return false;
    case DialGreetingReader::State::incomplete:
      return false;
  }
  return false;
}

/// Answers the challenge, of whatever version: the other end shall learn of this one's.
void Dialer::greet(Way& way) {
  const DialGreeting& theirs = way.challenge.greeting();
  if (theirs.magic != DialGreeting::kMagic || theirs.verdict != DialGreeting::Verdict::challenge) {
    return give_up(way, failed(Code::unreachable, "something else answers"));
  }
  const Result<DialGreeting> fresh = dial_challenge(wire_);
  if (!fresh.ok()) return give_up(way, fresh.status());
  way.nonce = fresh->nonce;
  const Status sent =
      dial_send(way.fd.get(), dial_greeting(wire_, self_, connection_, mine_,
                                            DialGreeting::Verdict::hello, way.nonce, theirs.nonce));
  if (!sent.ok()) return give_up(way, sent);
  way.state = Way::State::greeted;
  way.since = Clock::now();
}

std::string Dialer::rejected() const {
  std::string text;
  for (const Way& way : ways_) {
    if (way.state == Way::State::untried || way.state == Way::State::taken) continue;
    text += (text.empty() ? "" : ", ") + way.address.text() + ": ";
    if (way.state != Way::State::failed) {
      text += "no answer yet";
    } else if (const Failure& why = *way.failure.failure(); why.error != 0) {
      text += std::strerror(why.error);
    } else {
      text += why.what;
    }
  }
  return text;
}

Result<Fd> Dialer::poll() {
  for (Way& way : ways_) {
    move_on(way);
    if (way.state != Way::State::greeted || way.answer.bytes() < sizeof(DialGreeting)) continue;
    COLL_TRY(dial_agree(way.answer.greeting(), wire_, connection_));
    if (way.answer.greeting().verdict != DialGreeting::Verdict::welcome) {
      return failed(Code::internal, "rank " + std::to_string(connection_.peer) + " refused lane " +
                                        std::to_string(connection_.lane));
    }
    way.state = Way::State::taken;
    theirs_ = way.answer.greeting().offer;
    tune_connected(way.fd.get());
    if (log_enabled(LogLevel::info)) {
      const std::string not_taken = rejected();
      log(LogLevel::info,
          "rank " + std::to_string(connection_.peer) + " lane " + std::to_string(connection_.lane) +
              ": " + std::string(wire_.name) + " " + local_address(way.fd.get()).text() + " to " +
              way.address.text() + (not_taken.empty() ? "" : " (rejected: " + not_taken + ")"));
    }
    return std::move(way.fd);
  }
  const auto next = [&] { return std::ranges::find(ways_, Way::State::untried, &Way::state); };
  while (next() != ways_.end() && want_another()) {
    Way& way = *next();
    start(way);
    // What this process lacks, it lacks for every address.
    if (way.failure.code() == Code::out_of_resources) return way.failure;
  }
  if (std::ranges::all_of(ways_, [](auto& way) { return way.state == Way::State::failed; })) {
    return failed(Code::unreachable,
                  "connecting to rank " + std::to_string(connection_.peer) + " lane " +
                      std::to_string(connection_.lane) + ": no address answers (" + rejected() +
                      ")",
                  "check firewalls and COLL_INTERFACE on both hosts")
        .at_rank(connection_.peer);
  }
  return Fd();
}

}  // namespace coll
