// SPDX-License-Identifier: Apache-2.0
// What all ways to a membership have in common.
#pragma once
#include <vector>

#include "communicator/membership/membership.hpp"
#include "communicator/membership/reach.hpp"
#include "communicator/membership/seating.hpp"

namespace coll {

/// Makes the world that all ranks plan by, from what they say of themselves, of their paths and of
/// their hosts; the paths of `out` are there.
Status finish_membership(const std::vector<Card>& cards, const std::vector<Reach>& reaches,
                         const std::vector<Seating>& seatings, Rank rank, Membership& out);

}  // namespace coll
