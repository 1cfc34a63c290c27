// SPDX-License-Identifier: Apache-2.0
// An exchange, by whichever side this rank is on.
#include "rendezvous/exchange/exchange.hpp"

#include "rendezvous/exchange/exchange_rules.hpp"
#include "rendezvous/exchange/exchange_sides.hpp"
#include "rendezvous/exchange/exchange_words.hpp"

namespace coll {

Result<std::string> exchange_packed(Meeting& meeting, std::string mine, Deadline deadline,
                                    const Relaying& relaying) {
  COLL_TRY(check_text(mine));
  if (meeting.size == 1) return pack_packet({std::move(mine)}, {});
  return meeting.is_hub() ? exchange_as_hub(meeting, relaying, std::move(mine), deadline)
                          : exchange_with_hub(meeting, relaying, mine, deadline);
}

Result<std::vector<std::string>> exchange(Meeting& meeting, std::string mine, Deadline deadline,
                                          const Relaying& relaying) {
  COLL_ASSIGN(const std::string packet,
              exchange_packed(meeting, std::move(mine), deadline, relaying));
  return unpack_texts(packet, meeting.size, meeting.hub);
}

}  // namespace coll
