// SPDX-License-Identifier: Apache-2.0
// An exchange, by whichever side this rank is on.
#include "rendezvous/exchange/exchange.hpp"

#include "rendezvous/exchange/exchange_sides.hpp"
#include "rendezvous/exchange/exchange_words.hpp"

namespace coll {

Result<std::string> exchange_packed(Meeting& meeting, std::string mine, Deadline deadline,
                                    const Relaying& relaying) {
  if (mine.size() > kTextLimit) {
    return failed(Code::invalid_argument, "exchange: a text of " + std::to_string(mine.size()) +
                                              " bytes, at most " + std::to_string(kTextLimit));
  }
  if (meeting.size == 1) return pack_packet({std::move(mine)}, {});
  return meeting.is_hub() ? exchange_as_hub(meeting, relaying, std::move(mine), deadline)
                          : exchange_with_hub(meeting, relaying, mine, deadline);
}

Result<std::vector<std::string>> exchange(Meeting& meeting, std::string mine, Deadline deadline,
                                          const Relaying& relaying) {
  COLL_ASSIGN(const std::string packet,
              exchange_packed(meeting, std::move(mine), deadline, relaying));
  auto texts = read_texts(packet, meeting.size);
  if (!texts) return senseless_hub(meeting.hub);
  return *std::move(texts);
}

}  // namespace coll
