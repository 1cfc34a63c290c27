// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a communicator meet that are to be a communicator of their own.
#include "communicator/split.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/hash.hpp"
#include "base/knobs.hpp"
#include "rendezvous/unique_id.hpp"

namespace coll {
namespace {

/// What the first rank of a part tells the others.
struct Invitation {
  std::uint64_t ranks = 0;  ///< a hash of the list, where they know it
  std::uint8_t code = 0;    ///< why there is no id
  UniqueId id{};
};
static_assert(std::is_trivially_copyable_v<Invitation>);

Invitation invite(const std::string& interfaces, std::uint64_t ranks) {
  Invitation invitation;
  invitation.ranks = ranks;
  const Result<UniqueId> id = make_unique_id(interfaces);
  if (id.ok()) {
    invitation.id = *id;
  } else {
    invitation.code = static_cast<std::uint8_t>(id.status().code());
  }
  return invitation;
}

Result<Part> accept(const Invitation& invitation, Rank from, Rank rank, std::size_t size) {
  if (invitation.code != 0) {
    return failed(static_cast<Code>(invitation.code),
                  "rank " + std::to_string(from) +
                      ", the first of the new communicator, could not listen for the others",
                  "its own message says why")
        .at_rank(from);
  }
  COLL_ASSIGN(MeetingPlace place, place_of(invitation.id, knobs().secret));
  return Part{std::move(place), rank, static_cast<Rank>(size)};
}

template <class T>
Request request_of(Collective collective, Rank root, const T* input, T* output) {
  static_assert(std::is_trivially_copyable_v<T>);
  Request request;
  request.call = {0, collective, DataType::uint8, ReduceOp::sum, root, sizeof(T)};
  request.input = input;
  request.output = output;
  return request;
}

template <class T>
Result<std::vector<T>> gathered(Communicator& parent, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(parent.size()));
  COLL_TRY(parent.run(request_of(Collective::all_gather, 0, &mine, all.data())));
  return all;
}

/// A copy, as long as what a rank at the door can say is right.
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

}  // namespace

Result<std::optional<Part>> split(Communicator& parent, std::optional<std::int32_t> color,
                                  std::int32_t key, const std::string& interfaces) {
  struct Wish {
    std::int64_t color;  ///< below 0: none
    std::int64_t key;
  };
  COLL_ASSIGN(const std::vector<Wish> wishes, gathered(parent, Wish{color ? *color : -1, key}));
  std::vector<Rank> members;
  for (Rank rank = 0; rank < parent.size(); ++rank) {
    if (color && wishes[static_cast<std::size_t>(rank)].color == *color) members.push_back(rank);
  }
  std::ranges::stable_sort(members, {},
                           [&](Rank rank) { return wishes[static_cast<std::size_t>(rank)].key; });
  const bool invites = members.size() > 1 && members.front() == parent.rank();
  COLL_ASSIGN(const std::vector<Invitation> invitations,
              gathered(parent, invites ? invite(interfaces, 0) : Invitation{}));
  if (!color) return std::optional<Part>();
  if (members.size() == 1) return std::optional<Part>(Part{});
  const auto rank = std::ranges::find(members, parent.rank()) - members.begin();
  const Rank first = members.front();
  COLL_ASSIGN(Part part, accept(invitations[static_cast<std::size_t>(first)], first,
                                static_cast<Rank>(rank), members.size()));
  return std::optional<Part>(std::move(part));
}

Result<Part> subset(Communicator& parent, std::span<const int> ranks,
                    const std::string& interfaces) {
  COLL_ASSIGN(const std::vector<Rank> members, checked(parent, ranks));
  if (members.size() == 1) return Part{};
  Fnv1a hash;
  for (const Rank rank : members) hash.word(static_cast<std::uint64_t>(rank));
  const std::uint64_t same = hash.value();
  const auto rank = std::ranges::find(members, parent.rank()) - members.begin();
  const Rank first = members.front();
  Invitation invitation;
  if (rank == 0) {
    invitation = invite(interfaces, same);
    for (const Rank other : std::span(members).subspan(1)) {
      COLL_TRY(parent.run(request_of<Invitation>(Collective::send, other, &invitation, nullptr)));
    }
  } else {
    COLL_TRY(parent.run(request_of<Invitation>(Collective::recv, first, nullptr, &invitation)));
    if (invitation.ranks != same) {
      return failed(Code::mismatch,
                    "rank " + std::to_string(first) + " names other ranks, or another order",
                    "give the same list on all ranks named")
          .at_rank(first);
    }
  }
  return accept(invitation, first, static_cast<Rank>(rank), members.size());
}

}  // namespace coll
