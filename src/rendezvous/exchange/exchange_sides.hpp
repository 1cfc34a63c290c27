// SPDX-License-Identifier: Apache-2.0
// The two sides of an exchange.
#pragma once
#include <string>
#include <string_view>

#include "rendezvous/exchange/exchange.hpp"
#include "rendezvous/exchange/exchange_words.hpp"
#include "sys/clock.hpp"

namespace coll {

/// The hub's side; the packet that all ranks get.
Result<std::string> exchange_as_hub(Meeting& meeting, const Relaying& relaying, std::string mine,
                                    Deadline deadline);
/// Another rank's: it hears from the hub or a relay, and is one itself.
Result<std::string> exchange_with_hub(Meeting& meeting, const Relaying& relaying,
                                      std::string_view mine, Deadline deadline);

inline RelayTree relay_tree(const Meeting& meeting, const Relaying& relaying) {
  const bool star = meeting.size <= relaying.star_up_to;
  return {meeting.hub, meeting.size, star ? meeting.size : relaying.fan_out};
}

}  // namespace coll
