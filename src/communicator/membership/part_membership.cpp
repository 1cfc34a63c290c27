// SPDX-License-Identifier: Apache-2.0
// The membership of ranks that have one already.
#include "communicator/membership/part_membership.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "communicator/membership/membership_steps.hpp"
#include "communicator/membership/settings_on_cards.hpp"
#include "control/control_thread.hpp"
#include "rendezvous/control_message.hpp"
#include "sys/file_limit.hpp"

namespace coll {
namespace {

/// Descriptors that a communicator opens at once, with room for the connections of its first
/// operations, and of older communicators'.
constexpr std::size_t kFilesOfPart = 24;

enum class KinWord : std::uint8_t {
  anew = 0,     ///< this rank's paths may be others now
  same = 1,     ///< its card and reach follow
  failure = 2,  ///< this rank cannot make the communicator
};

/// What this rank makes: the transports of its ways.
Status make_transports(const Assembly& part, const Kinship& kin,
                       const std::vector<TransportChoice>& choices, const std::string& interface,
                       Card& card, Membership& out) {
  TransportSpec spec{part.rank, part.size, {part.job[0], part.job[1]}, interface, part.one_network};
  spec.numa_node = card.numa;
  for (std::size_t peer = 0; peer < kin.ways.size(); ++peer) {
    out.paths[peer].name = kin.ways[peer].transport;
  }
  COLL_ASSIGN(const std::vector<std::string> names, make_named_transports(spec, choices, out));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Transport& made = *out.transports[i];
    const Transport::Limits limits = made.limits();
    card.offers.push_back({names[i], made.descriptor(), limits.slot_bytes, limits.slice_bytes,
                           static_cast<float>(limits.gbytes_per_s)});
  }
  return {};
}

Reach reach_of(const Kinship& kin, Rank rank) {
  Reach reach{.host = rank, .used = 0, .kinds = {}, .fused = false};
  for (std::size_t peer = 0; peer < kin.ways.size(); ++peer) {
    const Kinship::Way& way = kin.ways[peer];
    if (static_cast<Rank>(peer) == rank) continue;
    for (std::size_t i = 0; i < kin.offers.size(); ++i) {
      if (kin.offers[i].transport == way.transport) reach.used |= std::uint32_t{1} << i;
    }
    reach.kinds.add(way.path);
    if (way.path.shares_memory) reach.host = std::min(reach.host, static_cast<Rank>(peer));
  }
  return reach;
}

/// Reads what a rank that stays says.
Status read_kin(MessageReader& in, Rank rank, const Card& zero, Card& card, Reach& reach) {
  const std::string text = in.text();
  const std::string_view rest = in.rest();
  MessageReader reach_words(rest);
  const std::optional<Reach> read = Reach::read(reach_words, rank, zero);
  if (!in.good() || !read) return unreadable(rank, "choice of paths");
  reach = *read;
  COLL_ASSIGN(card, read_card(text, rank));
  return {};
}

}  // namespace

Status keep_room_for_one_more() {
  return keep_files_free(kFilesOfPart, "one more communicator beside the " +
                                           std::to_string(ControlThread::tasks_of_process() - 1) +
                                           " of this process");
}

Result<std::vector<std::string>> make_named_transports(const TransportSpec& spec,
                                                       const std::vector<TransportChoice>& choices,
                                                       Membership& out) {
  std::vector<std::string> names;
  for (const TransportChoice& choice : choices) {
    const auto named = [&](const PeerPath& path) { return path.name == choice.name; };
    if (std::ranges::none_of(out.paths, named)) continue;
    COLL_ASSIGN(std::unique_ptr<Transport> made, choice.make(spec));
    for (PeerPath& path : out.paths) {
      if (named(path)) path.transport = made.get();
    }
    out.transports.push_back(std::move(made));
    names.push_back(choice.name);
  }
  return names;
}

Kinship kinship_of(const Membership& old, const std::vector<Rank>& members) {
  Kinship kin{old.own, old.offers, {}};
  for (const Rank member : members) {
    const PeerPath& path = old.paths[static_cast<std::size_t>(member)];
    kin.ways.push_back(path.transport == nullptr ? Kinship::Way{}
                                                 : Kinship::Way{path.name, path.capabilities()});
  }
  return kin;
}

PartStart start_part(const Assembly& part, const Kinship* kin,
                     const std::vector<TransportChoice>& choices, const std::string& interface,
                     const SharedSettings& settings, Result<OwnPlace> own) {
  PartStart start;
  // Ranks with devices are seated again: their orders are other ones without the ranks that left.
  start.keeps_paths = kin != nullptr && own.ok() && own->device.empty() && !own->described;
  start.own = std::move(own);
  start.made.paths.resize(static_cast<std::size_t>(part.size));
  MessageWriter mine;
  const auto word = [&](KinWord one) -> MessageWriter& {
    return mine.u8(static_cast<std::uint8_t>(one));
  };
  Card card;
  Status ready = keep_room_for_one_more();
  if (ready.ok() && start.keeps_paths) {
    card = kin->own;
    ready = make_transports(part, *kin, choices, interface, card, start.made);
  }
  if (!ready.ok()) {
    word(KinWord::failure)
        .failure(
            *ready.with_context("rank " + std::to_string(part.rank)).at_rank(part.rank).failure());
  } else if (!start.keeps_paths) {
    word(KinWord::anew);
  } else {
    put_settings(settings, part.rank, part.size, card);
    word(KinWord::same).text(write_card(card));
    reach_of(*kin, part.rank).write(mine);
  }
  start.text = mine.bytes();
  return start;
}

Result<Membership> finish_part(const Assembly& part, const Kinship* kin, PartStart start,
                               const std::vector<std::string>& texts,
                               const std::vector<TransportChoice>& choices,
                               const std::string& interface, const SharedSettings& settings) {
  const auto size = static_cast<std::size_t>(part.size);
  std::vector<Card> cards(size);
  std::vector<Reach> reaches(size);
  Card zero;
  bool anew = !start.keeps_paths;
  if (!anew) zero.offers = kin->offers;
  for (std::size_t r = 0; r < size; ++r) {
    const auto rank = static_cast<Rank>(r);
    MessageReader in(texts[r]);
    const std::uint8_t said = in.u8();
    if (said == static_cast<std::uint8_t>(KinWord::failure)) {
      Status failure(in.failure());
      return in.whole() ? failure : unreadable(rank, "failure");
    }
    anew = anew || said == static_cast<std::uint8_t>(KinWord::anew);
    if (anew) continue;
    COLL_TRY(read_kin(in, rank, zero, cards[r], reaches[r]));
  }
  Membership out = std::move(start.made);
  if (anew) {
    out.transports.clear();  // there is room for one set only
    return agree_on_membership(part, choices, interface, settings, start.own);
  }
  for (std::size_t r = 0; r < size; ++r) {
    if (static_cast<Rank>(r) == part.rank) continue;
    const Card::Offer* const offer = cards[r].offer(kin->ways[r].transport);
    if (offer == nullptr) return unreadable(static_cast<Rank>(r), "choice of transports");
    out.paths[r].descriptor = offer->descriptor;
  }
  cards[0].offers = kin->offers;
  out.own = kin->own;
  out.offers = kin->offers;
  COLL_TRY(finish_membership(
      cards, reaches, {std::vector<Seating>(size), std::vector<Seating>(size)}, part.rank, out));
  return out;
}

}  // namespace coll
