// SPDX-License-Identifier: Apache-2.0
// Messages through pairs, and what their completions tell.
#include "transports/verbs/verbs_ways.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "sys/proof.hpp"

namespace coll {
namespace {

/// What a failed completion means; the names are those of ibv_poll_cq(3).
std::string text_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the other end does not answer (retries exceeded)";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the other end has no receive posted (RNR retries exceeded)";
    case IBV_WC_REM_ACCESS_ERR:
      return "the other end refuses access to its memory";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair was in the error state";
    default:
      return "completion status " + std::to_string(status);
  }
}

}  // namespace

VerbsWays::VerbsWays(VerbsReceiver& receiver, const VerbsOptions& options, const VerbsSlots& slots,
                     std::uint32_t credits, bool& attention)
    : receiver_(receiver),
      options_(options),
      slots_(slots),
      credits_(credits),
      attention_(attention) {
  again_.reserve(credits);
}

/// A number that nobody who does not know the secret comes upon (the mixer of SplitMix64).
std::uint64_t VerbsWays::stamp_of(std::uint64_t secret, std::uint32_t era, std::uint64_t message) {
  std::uint64_t x = secret + (message << 20 ^ era) * 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

/// Of a hint for that message.
std::uint64_t VerbsWays::hint_secret(std::uint64_t secret, std::uint64_t message) {
  return stamp_of(~secret, 0, message);
}

// --- connecting

Status VerbsWays::add(const VerbsRail& rail, std::uint32_t id) {
  COLL_ASSIGN(std::unique_ptr<VerbsPair> pair, VerbsPair::make(rail, credits_, options_, id));
  Way way;
  way.pair = std::move(pair);
  way.id = id;
  way.under_way.reserve(credits_);
  ways_.push_back(std::move(way));
  return {};
}

Result<VerbsMeeting> VerbsWays::meeting() {
  COLL_ASSIGN(const std::string random, random_bytes(sizeof secret_in_));
  std::memcpy(&secret_in_, random.data(), sizeof secret_in_);
  VerbsMeeting mine;
  mine.slots = slots_.address_in();
  mine.secret = secret_in_;
  mine.pairs = static_cast<std::uint32_t>(ways_.size());
  for (std::size_t i = 0; i < ways_.size(); ++i)
    mine.pair[i] = {ways_[i].pair->here(), slots_.remote_key(*ways_[i].pair->rail().device)};
  return mine;
}

Status VerbsWays::meet(const VerbsMeeting& there, Fd socket) {
  control_ = VerbsControl(std::move(socket));
  slots_there_ = there.slots;
  secret_out_ = there.secret;
  if (there.pairs != ways_.size())
    return failed(Code::mismatch,
                  "verbs: " + std::to_string(ways_.size()) + " queue pairs here, " +
                      std::to_string(there.pairs) + " there",
                  "set COLL_VERBS and COLL_INTERFACE alike on all ranks");
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    ways_[i].there = there.pair[i];
    COLL_TRY(ways_[i].pair->open_to(there.pair[i].end));
  }
  for (const Way& way : ways_) control_.say(word(VerbsWord::Kind::open, way));
  return {};
}

// --- messages

/// Of those that are usable, each in its turn.
VerbsWays::Way* VerbsWays::way_with_room(std::uint32_t work) {
  for (std::size_t tried = 0; tried < ways_.size(); ++tried) {
    Way& way = ways_[turn_];
    if (way.usable && way.pair->room(work)) return &way;
    turn_ = turn_ + 1 == ways_.size() ? 0 : turn_ + 1;
  }
  return nullptr;
}

bool VerbsWays::has_room() {
  return again_.empty() && way_with_room(kMostWork) != nullptr;
}

void VerbsWays::send(std::uint64_t message) {
  // A pair may have broken since there was room.
  Way* const way = again_.empty() ? way_with_room(kMessageWork) : nullptr;
  if (way == nullptr) {
    attention_ = true;
    return again_.push_back(message);
  }
  post(*way, message);
  turn_ = turn_ + 1 == ways_.size() ? 0 : turn_ + 1;
}

/// A message goes to the peer's slot. Or its payload goes to where the peer wants it, and the
/// header alone to the slot behind it.
void VerbsWays::post(Way& way, std::uint64_t message) {
  VerbsHeader header = slots_.header_out(message);
  // Hints are of no era: until the message is consumed its place stays what it is.
  const std::optional<VerbsHint> hint =
      slots_.hint_in(message, header.bytes, hint_secret(secret_in_, message));
  header.released = static_cast<std::uint32_t>(receiver_.consumed()) & kVerbsNumberBits;
  if (hint) header.released |= VerbsHeader::kLanded;
  slots_.set_header_out(message, header);
  owes_ = false;
  const VerbsDevice& device = *way.pair->rail().device;
  const std::uint32_t key = slots_.local_key(device);
  const std::optional<ibv_sge> lent = receiver_.lent(message, device);
  const ibv_sge payload = lent.value_or(
      ibv_sge{reinterpret_cast<std::uint64_t>(slots_.payload_out(message)), header.bytes, key});
  const VerbsSlots::Whole whole =
      slots_.finish(message, stamp_of(secret_out_, era_out_, message), key, lent || hint);
  const std::array<ibv_sge, 2> pieces{whole.piece, payload};
  const VerbsWrite slot{std::span(pieces).first(lent && !hint ? 2 : 1), slots_there_ + whole.offset,
                        way.there.key, lent && !hint};
  VerbsWrite landing;
  if (hint)
    landing = {std::span(pieces).last(1), hint->address,
               hint->keys[static_cast<std::size_t>(&way - ways_.data())], lent.has_value()};
  const Status posted =
      way.pair->send(slot, htonl(static_cast<std::uint32_t>(message) & kVerbsNumberBits),
                     hint ? &landing : nullptr);
  way.under_way.push_back({message, way.sent++, way.pair->posted()});
  if (!posted.ok()) break_off(way, posted.text());
}

void VerbsWays::note_landing(const VerbsLandings::Place& place) {
  VerbsHint hint;
  hint.address = reinterpret_cast<std::uint64_t>(place.into);
  hint.bytes = static_cast<std::uint32_t>(place.bytes);
  for (std::size_t i = 0; i < ways_.size(); ++i)
    hint.keys[i] = receiver_.landing_key(place.into, *ways_[i].pair->rail().device);
  slots_.set_hint_out(place.number, hint, hint_secret(secret_out_, place.number));
}

void VerbsWays::tell_landings(std::uint64_t first, std::uint64_t count) {
  Way* const way = way_with_room(kTellWork);
  if (way == nullptr) return;
  const VerbsSlots::Whole hints =
      slots_.hints_out(first, count, slots_.local_key(*way->pair->rail().device));
  const Status posted =
      way->pair->write({std::span(&hints.piece, 1), slots_there_ + hints.offset, way->there.key});
  if (!posted.ok()) break_off(*way, posted.text());
}

void VerbsWays::say_consumed() {
  Way* const way = way_with_room(1);
  owes_ = way == nullptr;
  attention_ |= owes_;
  if (owes_) return;
  const Status posted =
      way->pair->say(htonl(static_cast<std::uint32_t>(receiver_.consumed()) & kVerbsNumberBits));
  if (posted.ok()) return;
  owes_ = true;
  break_off(*way, posted.text());
}

bool VerbsWays::given(std::uint64_t end) const {
  if (!again_.empty() && again_.front() < end) return false;
  const auto is_before = [&](const Sent& one) { return one.message < end; };
  return std::ranges::none_of(ways_, [&](const Way& way) {
    return !way.usable && std::ranges::any_of(way.under_way, is_before);
  });
}

bool VerbsWays::arrived(std::uint64_t end) {
  bool all = again_.empty() || again_.front() >= end;
  for (Way& way : ways_) {
    VerbsPair& pair = *way.pair;
    std::erase_if(way.under_way, [&](const Sent& one) { return one.work <= pair.completed(); });
    std::uint64_t last = 0;
    for (const Sent& one : way.under_way)
      if (one.message < end) last = std::max(last, one.work);
    if (last == 0) continue;
    all = false;
    if (!way.usable || pair.will_tell(last) || !pair.room()) continue;
    if (const Status posted = pair.fence(); !posted.ok()) break_off(way, posted.text());
  }
  return all;
}

void VerbsWays::forget_before(std::uint64_t end) {
  for (Way& way : ways_)
    std::erase_if(way.under_way, [&](const Sent& one) { return one.message < end; });
  std::erase_if(again_, [&](std::uint64_t message) { return message < end; });
}

// --- completions

void VerbsWays::complete(const ibv_wc& completion) {
  const auto found = std::ranges::find(ways_, VerbsPair::id_of(completion.wr_id), &Way::id);
  if (found == ways_.end() || found->pair->is_old(completion.wr_id)) return;
  Way& way = *found;
  const bool receive = VerbsPair::is_receive(completion.wr_id);
  if (receive) way.pair->note_received();
  if (completion.status != IBV_WC_SUCCESS) {
    if (way.pair->state() == VerbsPair::State::open) break_off(way, text_of(completion.status));
    return;
  }
  if (way.usable) trouble_ns_ = 0;
  if (!receive) return way.pair->sent(completion.wr_id);
  const std::uint32_t number = ntohl(completion.imm_data);
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    ++way.arrived;
    receiver_.has_arrived(number);
  } else {
    receiver_.has_consumed(number);
  }
  if (way.pair->state() != VerbsPair::State::open) return;
  if (const Status posted = way.pair->replenish(); !posted.ok()) break_off(way, posted.text());
}

}  // namespace coll
