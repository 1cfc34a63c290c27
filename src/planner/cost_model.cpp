// SPDX-License-Identifier: Apache-2.0
// planner/: from a request to the plan an expert would have chosen. This file: what a call should
// cost.
#include "planner/cost_model.hpp"

#include <algorithm>
#include <cmath>

namespace coll {

double fetch_slowdown(const PathCost& path, double bytes, double ranks_per_core) {
  constexpr int kDoublings = 5;  // of the size, until all comes from memory
  const double least = ranks_per_core > 1 ? kCrowdedFetch : 1;
  const double beyond = bytes * std::max(1.0, ranks_per_core) / kOwnCacheBytes;
  // Whole ones: ranks must agree, and logarithms are rounded differently by different libraries.
  const int doublings = beyond <= 1 ? 0 : std::min(kDoublings, std::ilogb(beyond));
  return least + std::max(0.0, path.fetch_slowdown - least) * doublings / kDoublings;
}

double predict_us(const Cost& cost, double bytes, double slice_bytes, Loans loans,
                  const CostView& view) {
  const double crowd = std::max(1.0, view.ranks_per_core);
  const double moved =
      bytes *
      (loans == Loans::all ? std::max(cost.received, cost.sent / kReadersAtOnce) : cost.moved());
  // The first slice crosses every round before the pipeline is full; the rest streams behind it.
  const double message = cost.rounds > 0 ? std::min(slice_bytes, moved / cost.rounds) : 0;
  const double beta = loans == Loans::all
                          ? view.path.fetch_us_per_byte * fetch_slowdown(view.path, bytes, crowd)
                          : (view.path.send_us_per_byte + view.path.receive_us_per_byte) *
                                (in_own_cache(bytes, crowd) ? 1 : view.path.slowdown);
  const double latency =
      view.path.alpha_us + view.path.send_us + (crowd > 1 ? kHandOverUs * crowd : 0);
  const double notice = loans == Loans::all ? view.path.fetch_us : view.path.long_us;
  const bool through_slots = loans != Loans::all && crowd <= 1;
  const double page =
      through_slots ? 2 * std::min(message, view.path.page_bytes) * view.path.page_us_per_byte : 0;
  const double each =
      latency + message * beta + (message > view.path.inline_bytes ? notice + page : 0);
  const double fill = cost.rounds * each;
  const double window = slice_bytes * cost.chunks / cost.message_chunks;
  const double passes = std::max(1.0, std::ceil(bytes / window));
  const double stream = std::max(0.0, moved - cost.rounds * message) * beta;
  const double own = cost.steps * passes * view.path.step_us;
  return fill + (stream + own) * crowd;
}

}  // namespace coll
