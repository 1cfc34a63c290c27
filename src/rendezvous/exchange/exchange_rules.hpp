// SPDX-License-Identifier: Apache-2.0
// What holds for every exchange, over a meeting or a topic: its limits, and its failures.
#pragma once
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "sys/clock.hpp"

namespace coll {

/// How long the hub may take to tell all ranks of a failure, after the deadline if need be.
inline constexpr auto kHubsWordTime = std::chrono::seconds(1);
/// Until when a rank waits for the hub's word: the hub may decide at the last moment.
Deadline wait_for_hub_until(Deadline deadline);

/// Fails where a rank's own text is too long.
Status check_text(std::string_view text);
/// The packet with these (exchange_words.hpp). Fails where they are too long together.
Result<std::string> pack_texts(const std::vector<std::string>& texts,
                               const std::vector<std::string>& doors);
/// The texts of a packet that came from the hub.
Result<std::vector<std::string>> unpack_texts(std::string_view packet, Rank size, Rank hub);

// Failures that the hub finds.
/// `have`: what these ranks have, as in "ranks 1, 2 have not come in time".
Status late_ranks(const std::vector<bool>& late, const std::string& have, const char* hint);
Status lost_rank(Rank rank);
Status senseless_rank(Rank rank);

// Failures that another rank finds.
Status lost_hub(Rank hub);
Status late_hub(Rank hub);
Status senseless_hub(Rank hub);

}  // namespace coll
