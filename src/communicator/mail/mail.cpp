// SPDX-License-Identifier: Apache-2.0
// Announcements, matches and grants.
#include "communicator/mail/mail.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sys/cuda/device_copies.hpp"

namespace coll {
namespace {

constexpr std::uint32_t kLane = 0xc000;  ///< apart from those that calls use
constexpr std::uint32_t kCredits = 16;
constexpr int kDials = 3;                              ///< before a peer counts as unreachable
constexpr std::uint64_t kDigest = 0x6d61696c2d763031;  ///< "mail-v01"

/// Does a receive, or a probe, want such a message?
bool wants(const OpenCall& receive, Rank source, std::int32_t tag) {
  const Rank from = receive.request.call.root;
  const std::int32_t wanted = receive.request.extras->tag;
  return (from == kNoRank || from == source) && (wanted == kAnyTag || wanted == tag);
}

std::string elements(std::uint64_t count, DataType type) {
  return std::to_string(count) + " x " + std::string(name_of(type));
}

std::string tag_text(std::int32_t tag) {
  return tag == kAnyTag ? "any tag" : "tag " + std::to_string(tag);
}

}  // namespace

Status Mail::open(Rank rank) {
  if (!peers_) peers_ = std::make_unique<Peer[]>(membership_->paths.size());
  Peer& opened = peer(rank);
  opened.failed_dials = 0;
  if (opened.connection) return {};
  opened_.reserve(opened_.size() + 1);
  sources_.reserve(opened_.size() + 1);
  const bool is_new = opened.refusal.ok();
  dial(opened, rank);
  if (is_new) opened_.push_back(rank);
  if (opened.connection) ++opening_;
  return opened.refusal;
}

void Mail::dial(Peer& to, Rank rank) {
  constexpr std::size_t kSlot = 64;
  static_assert(sizeof(Envelope) <= kSlot);
  const PeerPath& path = membership_->paths[static_cast<std::size_t>(rank)];
  to.connection.reset();
  auto dialled = path.transport->open({rank, kLane, kSlot, kCredits}, path.descriptor);
  to.refusal = dialled.status();
  if (to.refusal.ok())
    to.connection = *std::move(dialled);
  else
    to.failed_dials = kDials;
}

Status Mail::post(OpenCall& call) {
  coming_.push(call);
  const Call& what = call.request.call;
  if (what.collective == Collective::send) return announce(call);
  const auto ranks = static_cast<Rank>(membership_->paths.size());
  for (Rank rank = 0; rank < ranks; ++rank) {
    if (rank == rank_ || (what.root != rank && what.root != kNoRank)) continue;
    // From any rank it may still come where one has left.
    if (const Status opened = open(rank); !opened.ok() && what.root == rank) return opened;
  }
  receives_.append(coming_);
  ++pending_;
  const auto message = std::ranges::find_if(
      messages_, [&](const Message& each) { return wants(call, each.source, each.tag); });
  if (message == messages_.end()) return {};
  OpenCall** last = receives_.begin();
  while (*last != &call) last = &(*last)->next;
  return match(last, message);
}

Status Mail::announce(OpenCall& call) {
  const Call& what = call.request.call;
  if (what.root == rank_) {
    const auto message = messages_.insert(
        messages_.end(), Message{rank_, call.request.extras->tag, what.type, what.count, 0, &call});
    own_sends_.append(coming_);
    ++pending_;
    return offer(message);
  }
  COLL_TRY(open(what.root));
  Peer& to = peer(what.root);
  to.unsent.push_back({.id = to.announced + 1,
                       .count = what.count,
                       .kind = Envelope::Kind::announcement,
                       .tag = call.request.extras->tag,
                       .type = static_cast<std::uint32_t>(what.type)});
  call.announced = ++to.announced;
  to.sends.append(coming_);
  ++pending_;
  set_unsent(true);
  flush(to);
  return {};
}

Result<bool> Mail::round(bool connect) {
  bool moved = false;
  if (connect && opening_ != 0) {
    for (const std::unique_ptr<Transport>& transport : membership_->transports) transport->poll();
  }
  bool unsent = false;
  if (connect) opening_ = 0;
  for (const Rank rank : opened_) {
    Peer& from = peer(rank);
    if (!from.ready) {
      if (!connect) continue;
      // The peer drops a dial that was begun for an earlier call, and not looked after since.
      if (!from.status().ok() && from.failed_dials < kDials) {
        ++from.failed_dials;
        dial(from, rank);
      }
      if (!from.connection) continue;
      if (!from.connection->ready()) {
        if (from.status().ok()) ++opening_;
        continue;
      }
      from.ready = moved = true;
      ProgressSource* const source = from.connection->progress_source();
      if (source != nullptr && std::ranges::find(sources_, source) == sources_.end()) {
        sources_.push_back(source);
      }
    }
    Connection& connection = *from.connection;
    while (const std::byte* const place = connection.peek(sizeof(Envelope), kDigest)) {
      Envelope envelope;
      std::memcpy(&envelope, place, sizeof envelope);
      connection.release();
      moved = true;
      COLL_TRY(take(rank, envelope));
    }
    if (!from.unsent.empty()) flush(from);
    unsent |= connection.status().ok() && (!from.unsent.empty() || !connection.flushed(from.sent));
  }
  set_unsent(unsent);
  return moved;
}

void Mail::set_unsent(bool unsent) {
  if (std::exchange(unsent_, unsent) == unsent) return;
  pending_ = unsent ? pending_ + 1 : pending_ - 1;
}

void Mail::flush(Peer& to) {
  if (!to.ready) return;
  while (!to.unsent.empty()) {
    std::byte* const place = to.connection->acquire(sizeof(Envelope));
    if (place == nullptr) return;
    std::memcpy(place, &to.unsent.front(), sizeof(Envelope));
    to.connection->commit(sizeof(Envelope), kDigest);
    to.sent = to.connection->mark();
    to.unsent.pop_front();
  }
}

Status Mail::take(Rank from, const Envelope& envelope) {
  const auto nonsense = [from](const std::string& what) {
    return failed(Code::internal, "rank " + std::to_string(from) + " " + what).at_rank(from);
  };
  if (envelope.kind != Envelope::Kind::grant) {
    if (envelope.kind != Envelope::Kind::announcement || envelope.type >= kDataTypes) {
      return nonsense("announced a message of an unknown type");
    }
    return offer(messages_.insert(messages_.end(),
                                  Message{from, envelope.tag, static_cast<DataType>(envelope.type),
                                          envelope.count, envelope.id, nullptr}));
  }
  CallList& sends = peer(from).sends;
  for (OpenCall** at = sends.begin(); *at != nullptr; at = &(*at)->next) {
    OpenCall& call = **at;
    if (call.announced != envelope.id) continue;
    sends.erase(at);
    --pending_;
    call.met = true;
    granted_.push(call);
    return {};
  }
  return nonsense("granted message " + std::to_string(envelope.id) + ", which was not announced");
}

/// A message that has just come; it stays where no receive wants it.
Status Mail::offer(Messages::iterator message) {
  for (OpenCall** at = receives_.begin(); *at != nullptr;) {
    if (!wants(**at, message->source, message->tag)) {
      at = &(*at)->next;
      continue;
    }
    const bool stays = (*at)->probe;
    COLL_TRY(match(at, message));
    if (!stays) break;
  }
  return {};
}

Status Mail::match(OpenCall** receive, Messages::iterator message) {
  OpenCall& call = **receive;
  Call& what = call.request.call;
  if (coll_message_t* const told = call.request.extras->message) {
    told->source = message->source;
    told->tag = message->tag;
    told->type = static_cast<coll_dtype_t>(message->type);
    told->count = message->count;
  }
  if (call.probe) {
    receives_.erase(receive);
    --pending_;
    over_.push(call);
    return {};
  }
  if (what.type != message->type || what.count < message->count) {
    return failed(Code::mismatch,
                  "recv_tagged of " + elements(what.count, what.type) + " from rank " +
                      std::to_string(message->source) + ", " + tag_text(message->tag) +
                      ": the message has " + elements(message->count, message->type),
                  "receive with the message's type and room for all its elements; coll_probe tells "
                  "both beforehand")
        .in_call(call.call.label())
        .at_rank(message->source);
  }
  if (OpenCall* const own = message->own) {
    DeviceCopies copies;
    copies.add(call.request.output, own->request.input, message->count * size_of(what.type));
    COLL_TRY(copies.finish());
    for (OpenCall** at = own_sends_.begin();; at = &(*at)->next) {
      if (*at != own) continue;
      own_sends_.erase(at);
      break;
    }
    --pending_;
    over_.push(*own);
  } else {
    grant(message->source, message->id);
  }
  receives_.erase(receive);
  --pending_;
  what.root = message->source;
  what.count = message->count;
  call.met = true;
  (message->own != nullptr ? over_ : granted_).push(call);
  messages_.erase(message);
  return {};
}

void Mail::grant(Rank sender, std::uint64_t id) {
  Peer& to = peer(sender);
  to.unsent.push_back({.id = id, .kind = Envelope::Kind::grant});
  set_unsent(true);
  flush(to);
}

bool Mail::take_back(const OpenCall& call) {
  for (OpenCall** at = receives_.begin(); *at != nullptr; at = &(*at)->next) {
    if (*at != &call) continue;
    receives_.erase(at);
    --pending_;
    return true;
  }
  return false;
}

void Mail::take_all(CallList& into) {
  for (const Rank rank : opened_) {
    into.append(peer(rank).sends);
    peer(rank).unsent.clear();
  }
  for (CallList* const calls : {&coming_, &receives_, &own_sends_, &granted_, &over_})
    into.append(*calls);
  messages_.clear();
  pending_ = 0;
  unsent_ = false;
}

/// A receive from any rank waits as long as another rank is left that could send. (A send to itself
/// needs none, but where all others are gone, nobody should wait for ever.)
Rank Mail::failed_peer(const OpenCall& call) const {
  const auto failed = [&](Rank rank) {
    const Peer& other = peer(rank);
    return (other.ready || other.failed_dials == kDials) && !other.status().ok();
  };
  const Rank named = call.request.call.root;
  if (named == rank_ || opened_.empty()) return kNoRank;
  if (named != kNoRank) return failed(named) ? named : kNoRank;
  return std::ranges::all_of(opened_, failed) ? opened_.back() : kNoRank;
}

std::string Mail::awaited(const OpenCall& call) const {
  std::string text = (call.probe ? "a probe for " : "") + tag_text(call.request.extras->tag);
  if (call.request.call.collective == Collective::send) return text + " is not received";
  constexpr std::size_t kNamed = 4;
  std::size_t named = 0;
  for (const Message& message : messages_) {
    if (named++ == kNamed) return text + " …";
    text += (named == 1 ? "; other messages wait: " : ", ") + tag_text(message.tag) +
            " from rank " + std::to_string(message.source);
  }
  return named == 0 ? text + "; no message waits" : text;
}

void Mail::add_nap_ends(NapEnds& ends) const {
  for (ProgressSource* const source : sources_) ends.add(*source);
}

}  // namespace coll
