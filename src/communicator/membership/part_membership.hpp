// SPDX-License-Identifier: Apache-2.0
// The membership of ranks that have one already.
#pragma once
#include <string>
#include <vector>

#include "communicator/membership/membership.hpp"

namespace coll {

/// What a rank of a part knows of itself and of its paths, from the communicator that it is a part
/// of. It outlives that communicator.
struct Kinship {
  /// The path to another rank of the part.
  struct Way {
    std::string transport;  ///< "" to itself
    PathCapabilities path;
  };
  Card own;
  std::vector<Card::Offer> offers;  ///< as in Membership
  std::vector<Way> ways;            ///< by rank of the part
};

/// `members`: the part's ranks, by their ranks in the old communicator.
Kinship kinship_of(const Membership& old, const std::vector<Rank>& members);

/// As `agree_on_membership`, for ranks that know each other. They keep the paths that they have, so
/// no rank tries any or makes a transport that it does not use, and one exchange is enough. `kin`
/// is null where this rank may use other transports or interfaces than in the old communicator. If
/// it is null on any rank, or a rank uses a GPU or has no place of its `own`, all agree anew.
Result<Membership> membership_of_part(const Assembly& part, const Kinship* kin,
                                      const std::vector<TransportChoice>& choices,
                                      const std::string& interface, const SharedSettings& settings,
                                      const Result<OwnPlace>& own = OwnPlace{});

}  // namespace coll
