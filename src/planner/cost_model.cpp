// SPDX-License-Identifier: Apache-2.0
// The closed formula for the time of a call, and the factors of measured copies.
#include "planner/cost_model.hpp"

#include <algorithm>
#include <cmath>

namespace coll {

double fetch_slowdown(const PathCost& path, double bytes, double ranks_per_core) {
  constexpr int kDoublings = 5;  // of the call's size, until every byte comes from memory
  const double least = ranks_per_core > 1 ? kCrowdedFetch : 1;
  const double beyond = bytes * std::max(1.0, ranks_per_core) / kOwnCacheBytes;
  // Whole numbers: ranks must agree, but libraries round logarithms differently.
  const int doublings = beyond <= 1 ? 0 : std::min(kDoublings, std::ilogb(beyond));
  return least + std::max(0.0, path.fetch_slowdown - least) * doublings / kDoublings;
}

CopyFactors copy_factors(double copy_us_per_byte, double fetch_us_per_byte) {
  const auto doublings = [](double us, double usual, double most) {
    return static_cast<std::int32_t>(
        std::lround(std::clamp<double>(std::log2(us / usual), CopyFactors::kLeast, most)));
  };
  return {.copy = doublings(copy_us_per_byte, kCopyUsPerByte, CopyFactors::kMostCopy),
          .fetch = doublings(fetch_us_per_byte, kSharedMemoryPath.fetch_us_per_byte,
                             CopyFactors::kMostFetch)};
}

CopyFactors agreed(const std::vector<CopyFactors>& of_ranks, const Layout& layout) {
  CopyFactors most{CopyFactors::kLeast, CopyFactors::kLeast};
  for (Rank host = 0; host < layout.hosts(); ++host) {
    CopyFactors least{CopyFactors::kMostCopy, CopyFactors::kMostFetch};
    for (const Rank rank : layout.members_of(host)) {
      const CopyFactors& of = of_ranks[static_cast<std::size_t>(rank)];
      least = {std::min(least.copy, of.copy), std::min(least.fetch, of.fetch)};
    }
    most = {std::max(most.copy, least.copy), std::max(most.fetch, least.fetch)};
  }
  return most;
}

CopyFactors factors_for(const CostView& view, Collective collective) {
  return reduces(collective) ? CopyFactors{} : view.factors;
}

PathCost inside_cost(const CostView& view, Collective collective) {
  const CopyFactors factors = factors_for(view, collective);
  PathCost cost = kSharedMemoryPath;
  cost.send_us_per_byte = std::ldexp(cost.send_us_per_byte, factors.copy);
  cost.receive_us_per_byte = std::ldexp(cost.receive_us_per_byte, factors.copy);
  cost.fetch_us_per_byte = std::ldexp(cost.fetch_us_per_byte, factors.fetch);
  return cost;
}

double copy_us_per_byte(const CostView& view, Collective collective) {
  return std::ldexp(kCopyUsPerByte, factors_for(view, collective).copy);
}

double predict_us(const Cost& cost, double bytes, double slice_bytes, Loans loans,
                  const PathCost& path, double ranks_per_core) {
  const double crowd = std::max(1.0, ranks_per_core);
  const double moved =
      bytes *
      (loans == Loans::all ? std::max(cost.received, cost.sent / kReadersAtOnce) : cost.moved());
  // The first slice passes through every round before the pipeline is full; the rest streams
  // behind.
  const double message = cost.rounds > 0 ? std::min(slice_bytes, moved / cost.rounds) : 0;
  const double beta = loans == Loans::all
                          ? path.fetch_us_per_byte * fetch_slowdown(path, bytes, crowd)
                          : (path.send_us_per_byte + path.receive_us_per_byte) *
                                (in_own_cache(bytes, crowd) ? 1 : path.slowdown);
  const double latency = path.alpha_us + path.send_us + (crowd > 1 ? kHandOverUs * crowd : 0);
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
