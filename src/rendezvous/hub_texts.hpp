// SPDX-License-Identifier: Apache-2.0
// What the hub says of ranks that cannot stay, or have not come.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "rendezvous/handshake.hpp"
#include "sys/net/listeners.hpp"

namespace coll {

Status taken_rank(const Claimant& holder, const Claimant& newcomer);
Status other_size(const Claimant& hub, const Claimant& newcomer);

/// Whom the hub has not let in so far.
struct Turned {
  Status last;  ///< why the last one that proved itself could not stay
  std::size_t wrong_keys = 0;
  std::string last_wrong_key;  ///< its address
};
/// `at`: where the hub listens, as `source` says.
Status ranks_missing(const std::vector<Rank>& absent, const Claimant& hub,
                     const std::string& source, const Listeners& at, const Turned& turned);

}  // namespace coll
