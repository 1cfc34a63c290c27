// SPDX-License-Identifier: Apache-2.0
// The settings that must be the same on all ranks, on their cards.
#pragma once
#include <vector>

#include "communicator/membership/card.hpp"

namespace coll {

/// Writes this rank's settings on its card, with its tuning table's part for `ranks` ranks.
void put_settings(const SharedSettings& settings, Rank rank, Rank ranks, Card& card);

/// Logs which ranks have other settings than rank 0, whose settings count.
void warn_of_other_settings(const std::vector<Card>& cards);

}  // namespace coll
