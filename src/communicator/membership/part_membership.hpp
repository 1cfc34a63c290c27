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

/// What a rank of a part has made before it hears of the others.
struct PartStart {
  Result<OwnPlace> own = OwnPlace{};
  bool keeps_paths = false;  ///< those that it has to ranks it knows
  Membership made;           ///< then: its transports
  std::string text;          ///< for the others; says a failure, too
};

/// `kin` is null where this rank may use other transports or interfaces than in the old
/// communicator. Of `part` this uses all but the exchange.
PartStart start_part(const Assembly& part, const Kinship* kin,
                     const std::vector<TransportChoice>& choices, const std::string& interface,
                     const SharedSettings& settings, Result<OwnPlace> own = OwnPlace{});

/// As `agree_on_membership`, for ranks that know each other: `texts` are those of their starts, by
/// rank. They keep the paths that they have, so no rank tries any or makes a transport that it does
/// not use, and those texts are enough. If `kin` is null on any rank, or a rank uses a GPU or has
/// no place of its own, all agree anew.
Result<Membership> finish_part(const Assembly& part, const Kinship* kin, PartStart start,
                               const std::vector<std::string>& texts,
                               const std::vector<TransportChoice>& choices,
                               const std::string& interface, const SharedSettings& settings);

}  // namespace coll
