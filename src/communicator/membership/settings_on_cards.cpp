// SPDX-License-Identifier: Apache-2.0
// The settings that must be the same on all ranks, on their cards.
#include "communicator/membership/settings_on_cards.hpp"

#include <string>
#include <utility>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "rendezvous/ranks_text.hpp"

namespace coll {
namespace {

constexpr std::size_t kMostTuningBytes = 512 << 10;  // the exchange takes twice that

void warn_of_other_knobs(const std::vector<Card>& cards) {
  for (std::size_t r = 1; r < cards.size(); ++r) {
    if (cards[r].settings.same_knobs(cards[0].settings)) continue;
    log(LogLevel::warn, "rank " + std::to_string(r) +
                            " has other values of COLL_ALGORITHM, COLL_ORDER, COLL_LANES, "
                            "COLL_SLICE_BYTES or COLL_CREDITS; rank 0's count");
  }
}

/// Writes the tuning table's part for `ranks` ranks on the card: rank 0 the whole part, by which
/// all ranks plan; other ranks only its digest, so that differences are noticed.
void put_tuning(const FoundTuning& tuning, Rank rank, Rank ranks, Card& card) {
  const TuningTable part = tuning.table.of_ranks(ranks);
  if (part.points.empty() && !part.model) return;
  std::string text = to_json(part);
  if (text.size() > kMostTuningBytes) {
    log(LogLevel::warn, "going on without the tuning table " + tuning.file + ": " +
                            std::to_string(text.size()) + " bytes for " + std::to_string(ranks) +
                            " ranks, at most " + std::to_string(kMostTuningBytes));
    return;
  }
  card.tuning_file = tuning.file;
  card.tuning_digest = Fnv1a().text(text).value();
  if (rank == 0) card.tuning = std::move(text);
}

void warn_of_other_tuning(const std::vector<Card>& cards) {
  std::vector<Rank> others;
  for (std::size_t r = 1; r < cards.size(); ++r) {
    if (cards[r].tuning_digest != cards[0].tuning_digest) others.push_back(static_cast<Rank>(r));
  }
  if (others.empty()) return;
  const auto named = [&](Rank each) {
    const std::string& file = cards[static_cast<std::size_t>(each)].tuning_file;
    return "rank " + std::to_string(each) + ": " + (file.empty() ? "none" : file);
  };
  log(LogLevel::warn, ranks_text(others) + (others.size() == 1 ? " has" : " have") +
                          " another tuning table than rank 0 (" + named(others.front()) + "; " +
                          named(0) + "); rank 0's counts");
}

}  // namespace

void put_settings(const SharedSettings& settings, Rank rank, Rank ranks, Card& card) {
  card.settings = settings;
  if (ranks > 1) put_tuning(settings.tuning, rank, ranks, card);
}

void warn_of_other_settings(const std::vector<Card>& cards) {
  warn_of_other_knobs(cards);
  warn_of_other_tuning(cards);
}

}  // namespace coll
