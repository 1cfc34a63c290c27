// SPDX-License-Identifier: Apache-2.0
// The limits of exchanges, and their failures.
#include "rendezvous/exchange/exchange_rules.hpp"

#include <algorithm>

#include "rendezvous/exchange/exchange_words.hpp"
#include "rendezvous/ranks_text.hpp"

namespace coll {
namespace {

constexpr const char* kSeeItsOutput = "see its output for the reason";
constexpr const char* kUseOneVersion = "use the same version of the library on all ranks";

Status rank_failed(Rank rank, Code code, const char* what, const char* hint) {
  return failed(code, "rank " + std::to_string(rank) + what, hint).at_rank(rank);
}

Status hub_failed(Rank hub, Code code, const char* what, const char* hint) {
  return failed(code, "exchange with the hub, rank " + std::to_string(hub) + what, hint)
      .at_rank(hub);
}

}  // namespace

Deadline wait_for_hub_until(Deadline deadline) {
  return deadline == Deadline::max() ? deadline : deadline + 2 * kHubsWordTime;
}

Status check_text(std::string_view text) {
  if (text.size() <= kTextLimit) return {};
  return failed(Code::invalid_argument, "exchange: a text of " + std::to_string(text.size()) +
                                            " bytes, at most " + std::to_string(kTextLimit));
}

Result<std::string> pack_texts(const std::vector<std::string>& texts,
                               const std::vector<std::string>& doors) {
  std::size_t together = 0;
  for (const std::string& text : texts) together += text.size();
  std::string packet = pack_packet(texts, doors);
  if (std::max(together, packet.size()) <= kPacketLimit) return packet;
  return failed(Code::out_of_resources,
                "the ranks' texts are " + std::to_string(together) + " bytes together");
}

Result<std::vector<std::string>> unpack_texts(std::string_view packet, Rank size, Rank hub) {
  auto texts = read_texts(packet, size);
  if (!texts) return senseless_hub(hub);
  return *std::move(texts);
}

Status late_ranks(const std::vector<bool>& late, const std::string& have, const char* hint) {
  const std::vector<Rank> ranks = ranks_where(late);
  const bool one = ranks.size() == 1;
  return failed(Code::deadline, ranks_text(ranks) + (one ? " has " : " have ") + have, hint)
      .at_rank(one ? ranks.front() : kNoRank);
}

Status lost_rank(Rank rank) {
  return rank_failed(rank, Code::peer_lost, " went away while ranks were connecting",
                     kSeeItsOutput);
}

Status senseless_rank(Rank rank) {
  return rank_failed(rank, Code::mismatch, " sent something that makes no sense", kUseOneVersion);
}

Status lost_hub(Rank hub) {
  return hub_failed(hub, Code::peer_lost, ": it went away while ranks were connecting",
                    kSeeItsOutput);
}

Status late_hub(Rank hub) {
  return hub_failed(hub, Code::deadline, ": it did not answer in time",
                    "see whether its process is stopped, or its host overloaded or gone");
}

Status senseless_hub(Rank hub) {
  return hub_failed(hub, Code::mismatch, ": it sent something that makes no sense", kUseOneVersion);
}

}  // namespace coll
