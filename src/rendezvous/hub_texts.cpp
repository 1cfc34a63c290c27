// SPDX-License-Identifier: Apache-2.0
// The hub's failures, put into words.
#include "rendezvous/hub_texts.hpp"

#include "rendezvous/ranks_text.hpp"

namespace coll {

Status taken_rank(const Claimant& holder, const Claimant& newcomer) {
  return failed(Code::invalid_usage,
                "two processes claim to be rank " + std::to_string(newcomer.rank) + ": " +
                    holder.text() + ", which came first, and " + newcomer.text(),
                "give every process its own rank")
      .at_rank(newcomer.rank);
}

Status other_size(const Claimant& hub, const Claimant& newcomer) {
  return failed(Code::invalid_usage,
                "rank " + std::to_string(newcomer.rank) + " (" + newcomer.text() +
                    ") was started as one of " + std::to_string(newcomer.size) + " ranks, rank " +
                    std::to_string(hub.rank) + " (" + hub.text() + ") as one of " +
                    std::to_string(hub.size),
                "start all ranks with the same size");
}

Status ranks_missing(const std::vector<Rank>& absent, const Claimant& hub,
                     const std::string& source, const Listeners& at, const Turned& turned) {
  std::string what = ranks_text(absent) + " of " + std::to_string(hub.size) +
                     (absent.size() == 1 ? " has" : " have") + " not come to the rendezvous (" +
                     source + "; listening at " + at.text() + " of host " + hub.host + ")";
  std::string hint = at.beyond_loopback()
                         ? "see whether they started and can reach this host"
                         : "see whether they started; those of other hosts need a rendezvous that "
                           "is not loopback";
  hint += "; COLL_CONNECT_S is how long to wait";
  if (!turned.last.ok()) {
    what += "; refused: " + turned.last.failure()->what;
    hint = turned.last.failure()->hint;
  }
  if (turned.wrong_keys > 0) {
    what += "; refused " + std::to_string(turned.wrong_keys) +
            (turned.wrong_keys == 1 ? " connection" : " connections") +
            " of another job or with another COLL_SECRET, the last: " + turned.last_wrong_key;
    hint = "set the same COLL_SECRET, or none, on all ranks";
  }
  return failed(Code::deadline, what, hint).at_rank(absent.size() == 1 ? absent.front() : kNoRank);
}

}  // namespace coll
