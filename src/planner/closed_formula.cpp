// SPDX-License-Identifier: Apache-2.0
// A closed formula for the time of a call.
#include "planner/closed_formula.hpp"

#include <algorithm>
#include <cmath>

namespace coll {

double predict_us(const Cost& cost, double bytes, double slice_bytes, Loans loans,
                  const CostConstants& costs, const PathCost& path, double ranks_per_core) {
  const double crowd = std::max(1.0, ranks_per_core);
  const double moved =
      bytes * (loans == Loans::all
                   ? std::max(cost.received, cost.sent / costs.sharing.readers_at_once)
                   : cost.moved());
  // The first slice passes through every round before the pipeline is full; the rest streams
  // behind.
  const double message = cost.rounds > 0 ? std::min(slice_bytes, moved / cost.rounds) : 0;
  const double beta = loans == Loans::all
                          ? fetched_us_per_byte(costs, path, bytes, crowd)
                          : (path.send_us_per_byte + path.receive_us_per_byte) *
                                (in_own_cache(costs, bytes, crowd) ? 1 : path.slowdown);
  const double latency =
      path.alpha_us + path.send_us + (crowd > 1 ? costs.sharing.hand_over_us * crowd : 0);
  const double notice = loans == Loans::all ? path.fetch_us : path.long_us;
  const bool through_slots = loans != Loans::all && crowd <= 1;
  const double page =
      through_slots ? 2 * std::min(message, path.page_bytes) * path.page_us_per_byte : 0;
  const double each = latency + message * beta + (message > path.inline_bytes ? notice + page : 0);
  const double fill = cost.rounds * each;
  const double window = slice_bytes * cost.chunks / cost.message_chunks;
  const double passes = std::max(1.0, std::ceil(bytes / window));
  const double stream = std::max(0.0, moved - cost.rounds * message) * beta;
  const double own = cost.steps * passes * path.step_us;
  return fill + (stream + own) * crowd;
}

}  // namespace coll
