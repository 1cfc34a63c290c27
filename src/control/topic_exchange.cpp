// SPDX-License-Identifier: Apache-2.0
// Every rank's text to every rank, over a topic.
#include "control/topic_exchange.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/exchange/exchange_sides.hpp"
#include "rendezvous/exchange/exchange_words.hpp"
#include "rendezvous/handshake.hpp"
#include "rendezvous/ranks_text.hpp"

namespace coll {
namespace {

Status late_ranks(const std::vector<bool>& missing) {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (missing[i]) ranks.push_back(static_cast<Rank>(i));
  }
  return failed(Code::deadline,
                ranks_text(ranks) + (ranks.size() == 1 ? " has" : " have") +
                    " not come to make the communicator in time",
                "see whether they run, and make it too")
      .at_rank(ranks.size() == 1 ? ranks.front() : kNoRank);
}

Status went_away(Rank rank) {
  return failed(Code::peer_lost,
                "rank " + std::to_string(rank) + " went away while ranks were connecting",
                "see its output for the reason")
      .at_rank(rank);
}

Status senseless_rank(Rank rank) {
  return failed(Code::mismatch,
                "rank " + std::to_string(rank) + " sent something that makes no sense",
                "use the same version of the library on all ranks")
      .at_rank(rank);
}

/// Nothing more comes: who ended that, and why.
Status ended(const Topic::Inbound& last) {
  if (!last.failure.ok()) return last.failure.at_rank(last.from);
  return last.why == Topic::Ending::senseless ? senseless_rank(last.from) : went_away(last.from);
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
    if (!next) return late_ranks(missing);
    const auto from = static_cast<std::size_t>(next->from);
    if (next->closed) return ended(*next);
    const auto word = read_text(next->frame);
    if (!word || !missing[from]) return senseless_rank(next->from);
    texts[from] = word->text;
    missing[from] = false;
  }
  return texts;
}

}  // namespace

Result<std::vector<std::string>> exchange(Topic& topic, std::string mine, Deadline deadline) {
  if (mine.size() > kTextLimit) {
    return failed(Code::invalid_argument, "exchange: a text of " + std::to_string(mine.size()) +
                                              " bytes, at most " + std::to_string(kTextLimit));
  }
  if (topic.is_hub()) {
    auto texts = gather(topic, std::move(mine), deadline);
    std::string word;
    if (texts.ok()) {
      word = pack_packet(*texts, {});
      std::size_t together = 0;
      for (const std::string& text : *texts) together += text.size();
      if (std::max(together, word.size()) > kPacketLimit) {
        texts = failed(Code::out_of_resources,
                       "the ranks' texts are " + std::to_string(together) + " bytes together");
      }
    }
    topic.tell_all(texts.ok() ? word : pack_failure(texts.status()));
    return texts;
  }
  {
    const std::lock_guard lock(topic.mutex());
    topic.send(topic.hub(), pack_text(0, mine));
  }
  // The hub decides, and may do so at the last moment.
  const Deadline until =
      deadline == Deadline::max() ? deadline : deadline + kHubsWordTime + kHubsWordTime;
  const auto answer = topic.receive(until);
  if (!answer) {
    return failed(Code::deadline,
                  "the hub, rank " + std::to_string(topic.hub()) + ", did not answer in time",
                  "see whether its process is stopped, or its host overloaded or gone")
        .at_rank(topic.hub());
  }
  if (answer->closed) return ended(*answer);
  if (auto failure = read_failure(answer->frame)) return *std::move(failure);
  auto texts = read_texts(answer->frame, topic.size());
  if (!texts) return senseless_hub(topic.hub());
  return *std::move(texts);
}

}  // namespace coll
