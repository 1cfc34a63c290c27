// SPDX-License-Identifier: Apache-2.0
// planner/: from a request to the plan an expert would have chosen. This file: what a call should
// cost.
#include "planner/cost_model.hpp"

#include <algorithm>
#include <cmath>

namespace coll {

double predict_us(const Cost& cost, double bytes, double slice_bytes, Loans loans,
                  const CostView& view) {
  const double crowd = std::max(1.0, view.ranks_per_core);
  const double moved =
      bytes *
      (loans == Loans::all ? std::max(cost.received, cost.sent / kReadersAtOnce) : cost.moved());
  // The first slice crosses every round before the pipeline is full; the rest streams behind it.
  const double message = cost.rounds > 0 ? std::min(slice_bytes, moved / cost.rounds) : 0;
  const double beta = view.path.beta(loans, in_own_cache(bytes, crowd));
  const double latency =
      view.path.alpha_us + view.path.send_us + (crowd > 1 ? kHandOverUs * crowd : 0);
  const double notice = loans == Loans::all ? view.path.fetch_us : view.path.long_us;
  const double each = latency + message * beta + (message > view.path.inline_bytes ? notice : 0);
  const double fill = cost.rounds * each;
  const double window = slice_bytes * cost.chunks / cost.message_chunks;
  const double passes = std::max(1.0, std::ceil(bytes / window));
  const double stream = std::max(0.0, moved - cost.rounds * message) * beta;
  const double own = cost.steps * passes * view.path.step_us;
  return fill + (stream + own) * crowd;
}

}  // namespace coll
