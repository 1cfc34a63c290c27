// SPDX-License-Identifier: Apache-2.0
// Where some ranks of a communicator meet to become a communicator of their own.
#include "communicator/split.hpp"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/knobs.hpp"
#include "communicator/gathered.hpp"
#include "rendezvous/unique_id.hpp"

namespace coll {
namespace {

/// What the first rank of a part tells the others.
struct Invitation {
  std::uint64_t ranks = 0;  ///< a hash of the list, where they know it
  std::uint64_t code = 0;   ///< why there is no id
  std::uint64_t topic = 0;  ///< where none is needed
  UniqueId id{};
};

Rank place_in(const std::vector<Rank>& members, Rank self) {
  return static_cast<Rank>(std::ranges::find(members, self) - members.begin());
}

/// Do these ranks need no star of their own?
bool share_hub(const Communicator& parent, const std::vector<Rank>& members) {
  return std::ranges::find(members, parent.seats().hub) != members.end();
}

std::uint64_t new_topic(const Communicator& parent) {
  return parent.seats().plane ? parent.seats().plane->new_topic() : 0;
}

/// Tells those who wait on the topic that this rank will not come.
void refuse(const Communicator& parent, std::uint64_t topic) {
  const PlaneSeats& seats = parent.seats();
  if (topic != ControlPlane::kFirstTopic) seats.plane->refuse(topic, seats.members);
}

/// This rank's part, where the members share the hub of the old communicator. The first member has
/// named the topic.
Result<Part> ride(const Communicator& parent, std::uint64_t topic, const std::vector<Rank>& members,
                  bool same_paths) try {
  const PlaneSeats& seats = parent.seats();
  std::vector<Rank> there;
  for (const Rank one : members) there.push_back(seats.members[static_cast<std::size_t>(one)]);
  Part part;
  part.rank = place_in(members, parent.rank());
  part.size = static_cast<Rank>(members.size());
  if (same_paths) part.known.kin = kinship_of(parent.membership(), members);
  if (topic != ControlPlane::kFirstTopic) part.topic = seats.plane->open(topic, std::move(there));
  if (part.topic) return part;
  return failed(Code::internal,
                "rank " + std::to_string(members.front()) +
                    " gave the new communicator a number that is in use",
                "use the same version of the library on all ranks")
      .at_rank(members.front());
} catch (const std::exception&) {
  refuse(parent, topic);
  throw;
}

/// The part of rank `self`. The first of the members has sent the invitation.
Result<Part> accept(const Invitation& invitation, const std::vector<Rank>& members, Rank self) {
  const Rank first = members.front();
  if (invitation.code != 0) {
    return failed(static_cast<Code>(invitation.code),
                  "rank " + std::to_string(first) +
                      ", the first of the new communicator, could not listen for the others",
                  "its own message says why")
        .at_rank(first);
  }
  COLL_ASSIGN(MeetingPlace place, place_of(invitation.id, knobs().secret));
  Part part;
  part.place = std::move(place);
  part.rank = place_in(members, self);
  part.size = static_cast<Rank>(members.size());
  return part;
}

/// The invitation of a part's first rank. An id that it does not use itself is closed.
class Invited {
 public:
  Invited(const std::string& interfaces, std::uint64_t ranks) {
    invitation_.ranks = ranks;
    try {
      const Result<UniqueId> id = make_unique_id(interfaces);
      open_ = id.ok();
      why_ = id.status();
      if (open_) invitation_.id = *id;
    } catch (const std::exception&) {
      why_ = status_of_exception();
    }
    invitation_.code = static_cast<std::uint64_t>(why_.code());
  }
  Invited(const Invited&) = delete;
  Invited& operator=(const Invited&) = delete;
  ~Invited() {
    if (!open_) return;
    try {
      const Result<MeetingPlace> place = place_of(invitation_.id, knobs().secret);
      if (place.ok()) static_cast<void>(take_door(*place));
    } catch (const std::exception&) {
      // Without memory it stays among the process's unused ids, which harms nobody.
    }
  }

  [[nodiscard]] const Invitation& text() const { return invitation_; }
  /// The first rank's own part, which uses the id from now on.
  Result<Part> use(const std::vector<Rank>& members) {
    if (!why_.ok()) return why_;
    COLL_ASSIGN(Part part, accept(invitation_, members, members.front()));
    open_ = false;
    return part;
  }

 private:
  Invitation invitation_;
  Status why_;  ///< there is no id
  bool open_ = false;
};

/// The ranks named, if they are right as far as this rank can tell.
Result<std::vector<Rank>> checked(const Communicator& parent, std::span<const int> ranks) {
  std::vector<Rank> seen;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= parent.size()) {
      return failed(Code::invalid_argument,
                    "rank " + std::to_string(rank) + " is not a rank of this communicator",
                    "ranks are 0 to " + std::to_string(parent.size() - 1));
    }
    if (std::ranges::find(seen, rank) != seen.end()) {
      return failed(Code::invalid_argument, "rank " + std::to_string(rank) + " is named twice");
    }
    seen.push_back(rank);
  }
  if (std::ranges::find(seen, parent.rank()) == seen.end()) {
    return failed(Code::invalid_argument,
                  "this rank, " + std::to_string(parent.rank()) + ", is not among those named",
                  "only the ranks named may call");
  }
  return seen;
}

constexpr std::int64_t kNoColor = -1, kRefused = -2;  // colors

/// A rank's wish as all ranks see it, and a topic in case that it is the first of its part.
struct SentWish {
  std::int64_t color;
  std::int64_t key;
  std::uint64_t topic;
};

using Wishes = std::vector<SentWish>;

/// Is there a part of several ranks without the hub? `colors` has room for all.
bool some_meet(const Wishes& wishes, Rank hub, std::vector<std::int64_t>& colors) {
  const std::int64_t ridden = wishes[static_cast<std::size_t>(hub)].color;
  for (const SentWish& one : wishes) {
    if (one.color != kNoColor && one.color != ridden) colors.push_back(one.color);
  }
  std::ranges::sort(colors);
  return std::ranges::adjacent_find(colors) != colors.end();
}

/// Is there a part of several ranks with the hub?
bool some_ride(const Wishes& wishes, Rank hub) {
  const std::int64_t ridden = wishes[static_cast<std::size_t>(hub)].color;
  return ridden != kNoColor && std::ranges::count(wishes, ridden, &SentWish::color) > 1;
}

std::vector<Rank> members_of(const Wishes& wishes, std::int64_t color) {
  std::vector<Rank> members;
  for (std::size_t rank = 0; rank < wishes.size(); ++rank) {
    if (wishes[rank].color == color) members.push_back(static_cast<Rank>(rank));
  }
  std::ranges::stable_sort(members, {},
                           [&](Rank rank) { return wishes[static_cast<std::size_t>(rank)].key; });
  return members;
}

/// The first of the members, without memory for all of them.
Rank first_of(const Wishes& wishes, std::int64_t color) {
  std::size_t first = wishes.size();
  for (std::size_t rank = 0; rank < wishes.size(); ++rank) {
    if (wishes[rank].color != color) continue;
    if (first == wishes.size() || wishes[rank].key < wishes[first].key) first = rank;
  }
  return static_cast<Rank>(first);
}

using StartText = SentText<1020>;  ///< a PartStart's

/// What a rider has before it hears of the others. Whatever fails, the old communicator's ranks
/// count on this rank for their next step.
Result<Part> start_riding(const Communicator& parent, const Wishes& wishes, const PartJoining& how,
                          StartText& mine) noexcept try {
  const std::vector<Rank> members =
      members_of(wishes, wishes[static_cast<std::size_t>(parent.rank())].color);
  COLL_ASSIGN(Part part, ride(parent, wishes[static_cast<std::size_t>(members.front())].topic,
                              members, how.same_paths));
  Acquaintance& known = part.known;
  // To find a GPU may take seconds, and who seats ranks anew exchanges more than this anyway.
  if (!known.kin || !how.joining.device.name.empty()) return part;
  // The start uses no exchange, so no deadline.
  known.start = start_part(assembly_of(*part.topic, Deadline::max()), &*known.kin, how.joining);
  mine.set(known.start->text);
  return part;
} catch (const std::exception&) {
  return status_of_exception();
}

/// Where a text is missing, the ranks exchange them over the topic: there a rank that has failed
/// has hung up, and texts may be long.
void note_texts(const std::vector<StartText>& sent, const std::vector<Rank>& members, Part& part) {
  std::vector<std::string>& texts = part.known.texts;
  for (const Rank member : members) {
    const std::string_view one = sent[static_cast<std::size_t>(member)].view();
    if (one.empty()) return texts.clear();
    texts.emplace_back(one);
  }
}

}  // namespace

Result<std::optional<Part>> split(Communicator& parent, const Result<SplitWish>& wish,
                                  const PartJoining& how) {
  // What the steps below need: the others count on this rank for all of them.
  const auto size = static_cast<std::size_t>(parent.size());
  std::vector<StartText> texts(size);
  std::vector<Invitation> invitations(size);
  std::vector<std::int64_t> colors;
  colors.reserve(size);
  const std::int64_t color = !wish.ok() ? kRefused : wish->color ? *wish->color : kNoColor;
  Wishes wishes(size);
  COLL_TRY(gather(parent, SentWish{color, wish.ok() ? wish->key : 0, new_topic(parent)}, wishes));
  if (!wish.ok()) return wish.status();
  const auto refused = std::ranges::find(wishes, kRefused, &SentWish::color);
  if (refused != wishes.end()) {
    const auto rank = static_cast<Rank>(refused - wishes.begin());
    return failed(Code::invalid_argument,
                  "rank " + std::to_string(rank) + " cannot split: its arguments were refused",
                  "its own message says why")
        .at_rank(rank);
  }
  const Rank hub = parent.seats().hub;
  const bool some = some_ride(wishes, hub);
  const bool rides = some && color == wishes[static_cast<std::size_t>(hub)].color;
  const bool meets =
      color != kNoColor && !rides && std::ranges::count(wishes, color, &SentWish::color) > 1;
  std::optional<Invited> invited;
  if (some_meet(wishes, hub, colors)) {
    if (meets && first_of(wishes, color) == parent.rank()) {
      invited.emplace(how.joining.interface, 0);
    }
    COLL_TRY(gather(parent, invited ? invited->text() : Invitation{}, invitations));
  }
  Result<Part> part = Part{};
  if (some) {
    StartText mine;
    if (rides) part = start_riding(parent, wishes, how, mine);
    COLL_TRY(gather(parent, mine, texts));
  }
  if (color == kNoColor) return std::optional<Part>();
  const std::vector<Rank> members = members_of(wishes, color);
  if (rides && part.ok()) note_texts(texts, members, *part);
  if (meets) {
    const auto first = static_cast<std::size_t>(members.front());
    part = invited ? invited->use(members) : accept(invitations[first], members, parent.rank());
  }
  if (!part.ok()) return part.status();
  return std::optional<Part>(*std::move(part));
}

Result<Part> subset(Communicator& parent, std::span<const int> ranks, const PartJoining& how) {
  COLL_ASSIGN(const std::vector<Rank> members, checked(parent, ranks));
  if (members.size() == 1) return Part{};
  Fnv1a hash;
  for (const Rank rank : members) hash.word(static_cast<std::uint64_t>(rank));
  const std::uint64_t same = hash.value();
  const Rank first = members.front();
  const bool rides = share_hub(parent, members);
  const auto invite = [&](const Invitation& invitation) -> Status {
    for (const Rank other : std::span(members).subspan(1)) {
      COLL_TRY(parent.run(request_of<Invitation>(Collective::send, other, &invitation, nullptr)));
    }
    return {};
  };
  if (first == parent.rank() && rides) {
    Invitation invitation;
    invitation.ranks = same;
    invitation.topic = new_topic(parent);
    if (Status sent = invite(invitation); !sent.ok()) {
      refuse(parent, invitation.topic);
      return sent;
    }
    return ride(parent, invitation.topic, members, how.same_paths);
  }
  if (first == parent.rank()) {
    Invited invited(how.joining.interface, same);
    COLL_TRY(invite(invited.text()));
    return invited.use(members);
  }
  Invitation invitation;
  COLL_TRY(parent.run(request_of<Invitation>(Collective::recv, first, nullptr, &invitation)));
  if (invitation.ranks != same) {
    refuse(parent, invitation.topic);
    return failed(Code::mismatch,
                  "rank " + std::to_string(first) + " names other ranks, or another order",
                  "give the same list on all ranks named")
        .at_rank(first);
  }
  return rides ? ride(parent, invitation.topic, members, how.same_paths)
               : accept(invitation, members, parent.rank());
}

}  // namespace coll
