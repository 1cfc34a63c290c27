// SPDX-License-Identifier: Apache-2.0
// Pairs that break: what both ends agree on, what is sent again, and pairs begun anew.
#include <algorithm>

#include "base/log.hpp"
#include "transports/verbs/verbs_ways.hpp"

namespace coll {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
/// For completions of a broken pair to come, where a driver does not flush them all.
constexpr std::uint64_t kFlushNs = kSecondNs / 10;
/// Between tries to begin a pair anew.
constexpr std::uint64_t kBetweenTriesNs = kSecondNs / 1000;

}  // namespace

VerbsWord VerbsWays::word(VerbsWord::Kind kind, const Way& way) const {
  VerbsWord said;
  said.kind = kind;
  said.pair = static_cast<std::uint32_t>(&way - ways_.data());
  said.life = way.life;
  said.era = era_in_;
  said.arrived = way.arrived;
  said.consumed = receiver_.consumed();
  said.end = way.pair->here();
  return said;
}

void VerbsWays::break_off(Way& way, const std::string& why) {
  way.pair->break_off();
  way.usable = false;
  way.why = why;
  way.since = now_ns();
  troubled_ = attention_ = true;
  if (trouble_ns_ == 0) trouble_ns_ = way.since;
  log(LogLevel::info, "verbs: " + way.pair->text() + " has failed: " + why);
}

/// Once all that it received is known. From then on this end takes no stamp that was made before,
/// since what has not arrived by now is sent again.
void VerbsWays::tell_broken(Way& way) {
  ++era_in_;
  way.told_broken = true;
  control_.say(word(VerbsWord::Kind::broken, way));
  if (way.heard_broken) settle(way);
}

/// Both ends have broken it: nothing that was sent through it can arrive any more.
void VerbsWays::settle(Way& way) {
  for (const Sent& one : way.under_way)
    if (one.place >= way.heard.arrived && one.message >= way.heard.consumed)
      again_.push_back(one.message);
  std::ranges::sort(again_);
  way.under_way.clear();
  way.settled = true;
  send_again();
}

void VerbsWays::send_again() {
  while (!again_.empty()) {
    Way* const way = way_with_room(kMostWork);
    if (way == nullptr) return;
    const std::uint64_t message = again_.front();
    again_.erase(again_.begin());
    post(*way, message);
  }
}

/// Then that is why the way does not work.
bool VerbsWays::finds_port_down(Way& way) {
  const VerbsRail& rail = way.pair->rail();
  const Result<ibv_port_attr> port = rail.device->port(rail.rail.port.number);
  if (port.ok() && port->state == IBV_PORT_ACTIVE) return false;
  way.why = rail.rail.port.name() + " is down";
  return true;
}

/// If its port can carry traffic.
void VerbsWays::begin_anew(Way& way) {
  way.next_try = now_ns() + kBetweenTriesNs;
  if (finds_port_down(way)) return;
  if (const Status begun = way.pair->begin_anew(); !begun.ok()) {
    way.pair->break_off();
    way.why = begun.text();
    return;
  }
  way.told_anew = true;
  control_.say(word(VerbsWord::Kind::anew, way));
  if (way.heard_anew) open_anew(way);
}

/// Both have begun it anew.
void VerbsWays::open_anew(Way& way) {
  const Status opened = way.pair->open_to(way.there.end);
  ++way.life;
  way.sent = way.arrived = 0;
  way.told_broken = way.heard_broken = way.settled = way.told_anew = way.heard_anew = false;
  // Another life may have better luck: the peer's address may not be resolved yet.
  if (!opened.ok()) return break_off(way, opened.text());
  control_.say(word(VerbsWord::Kind::open, way));
}

void VerbsWays::hear(const VerbsWord& word) {
  receiver_.has_consumed(static_cast<std::uint32_t>(word.consumed) & kVerbsNumberBits);
  if (word.kind == VerbsWord::Kind::closed) return;
  if (word.pair >= ways_.size() || word.life != ways_[word.pair].life) {
    return receiver_.has_failed(failed(Code::internal, "verbs: a word of queue pair " +
                                                           std::to_string(word.pair) + " in life " +
                                                           std::to_string(word.life)));
  }
  Way& way = ways_[word.pair];
  switch (word.kind) {
    case VerbsWord::Kind::open:
      way.usable = way.pair->state() == VerbsPair::State::open;
      opened_ |= std::ranges::all_of(ways_, [](const Way& one) { return one.usable; });
      send_again();
      if (way.usable &&
          std::ranges::all_of(ways_, [](const Way& one) { return one.under_way.empty(); }))
        trouble_ns_ = 0;  // there is nothing that could prove it good
      break;
    case VerbsWord::Kind::broken:
      way.heard = word;
      way.heard_broken = true;
      era_out_ = std::max(era_out_, word.era);
      if (way.pair->state() == VerbsPair::State::open) {
        break_off(way, "the other end's has failed");
      } else if (way.told_broken) {
        settle(way);
      }
      break;
    case VerbsWord::Kind::anew:
      way.there.end = word.end;
      way.heard_anew = true;
      if (way.told_anew) open_anew(way);
      break;
    case VerbsWord::Kind::closed:
      break;
  }
}

void VerbsWays::lose_patience(std::uint64_t now) {
  if (trouble_ns_ == 0 || now < trouble_ns_ + options_.patience_s * kSecondNs) return;
  if (std::ranges::any_of(ways_, [](const Way& one) { return one.usable; })) return;
  std::string text;
  for (Way& way : ways_) {
    finds_port_down(way);  // perhaps nobody has asked yet
    text += (text.empty() ? "" : "; ") + way.pair->text() + ": " + way.why;
  }
  receiver_.has_failed(
      failed(Code::unreachable,
             "verbs: no port has reached the peer for " + std::to_string(options_.patience_s) +
                 " s (" + text + ")",
             "check cables, switches and ports; patience=SECONDS in COLL_VERBS waits longer"));
}

void VerbsWays::look() {
  control_.push();
  while (const auto said = control_.hear()) hear(*said);
  if (owes_) say_consumed();
  send_again();
  if (!troubled_) return;
  const std::uint64_t now = now_ns();
  troubled_ = false;
  for (Way& way : ways_) {
    if (way.usable) continue;
    troubled_ = true;
    if (way.pair->state() != VerbsPair::State::broken) continue;
    if (!way.told_broken && (way.pair->drained() || now > way.since + kFlushNs)) tell_broken(way);
    if (way.settled && !way.told_anew && now >= way.next_try) begin_anew(way);
  }
  lose_patience(now);
}

/// A queue pair that is destroyed reads and writes no more. (One in the error state may go on with
/// what it had begun, and some drivers do not give all of its work back.)
void VerbsWays::stop() {
  for (Way& way : ways_) {
    way.pair->destroy();
    way.usable = false;
  }
  hang_up();
}

void VerbsWays::close() {
  if (!ways_.empty()) control_.say(word(VerbsWord::Kind::closed, ways_.front()));
}

}  // namespace coll
