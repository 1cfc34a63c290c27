// SPDX-License-Identifier: Apache-2.0
// Every rank's text to every rank, over a topic.
#include "control/topic_exchange.hpp"

#include <utility>

#include "rendezvous/exchange/exchange_rules.hpp"
#include "rendezvous/exchange/exchange_words.hpp"
#include "rendezvous/handshake.hpp"

namespace coll {
namespace {

/// Nothing more comes: who ended that, and why.
Status ended(const Topic::Inbound& last) {
  if (!last.failure.ok()) return last.failure.at_rank(last.from);
  return last.why == Topic::Ending::senseless ? senseless_rank(last.from) : lost_rank(last.from);
}

/// All texts, once they are there.
Result<std::vector<std::string>> gather(Topic& topic, std::string mine, Deadline deadline) {
  const auto size = static_cast<std::size_t>(topic.size());
  std::vector<std::string> texts(size);
  std::vector<bool> missing(size, true);
  const auto me = static_cast<std::size_t>(topic.rank());
  texts[me] = std::move(mine);
  missing[me] = false;
  for (std::size_t left = size - 1; left > 0; --left) {
    const auto next = topic.receive(deadline);
    if (!next) {
      return late_ranks(missing, "not come to make the communicator in time",
                        "see whether they run, and make it too");
    }
    const auto from = static_cast<std::size_t>(next->from);
    if (next->closed) return ended(*next);
    const auto word = read_text(next->frame);
    if (!word || !missing[from]) return senseless_rank(next->from);
    texts[from] = word->text;
    missing[from] = false;
  }
  return texts;
}

Result<std::vector<std::string>> exchange_as_hub(Topic& topic, std::string mine,
                                                 Deadline deadline) {
  auto texts = gather(topic, std::move(mine), deadline);
  const Result<std::string> packet =
      texts.ok() ? pack_texts(*texts, {}) : Result<std::string>(texts.status());
  topic.tell_all(packet.ok() ? *packet : pack_failure(packet.status()));
  if (!packet.ok()) return packet.status();
  return texts;
}

}  // namespace

Result<std::vector<std::string>> exchange(Topic& topic, std::string mine, Deadline deadline) {
  COLL_TRY(check_text(mine));
  if (topic.is_hub()) return exchange_as_hub(topic, std::move(mine), deadline);
  {
    const std::lock_guard lock(topic.mutex());
    topic.send(topic.hub(), pack_text(0, mine));
  }
  const auto answer = topic.receive(wait_for_hub_until(deadline));
  if (!answer) return late_hub(topic.hub());
  if (answer->closed) return ended(*answer);
  if (auto failure = read_failure(answer->frame)) return *std::move(failure);
  return unpack_texts(answer->frame, topic.size(), topic.hub());
}

}  // namespace coll
