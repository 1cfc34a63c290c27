// SPDX-License-Identifier: Apache-2.0
// Networks to simulate on, and how long calls take there.
#pragma once
#include <gtest/gtest.h>

#include <cmath>

#include "collectives/built.hpp"
#include "schedule/simulate/simulate.hpp"

namespace coll {

inline constexpr double kAlpha = 3.0, kBeta = 0.002, kGamma = 0.0005, kBytes = 1 << 20;

/// Ranks with a port each way, as the alpha-beta-gamma model has them (Thakur, Rabenseifner, Gropp
/// 2005, section 3): link r goes out of rank r, link n + r into it.
inline Network ports(Rank ranks, double alpha = kAlpha, double beta = kBeta,
                     double gamma = kGamma) {
  Network network;
  for (const char* way : {"out of rank ", "into rank "}) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      network.links.push_back({way + std::to_string(rank), beta});
    }
  }
  network.route = [=](Rank source, Rank target) {
    return Route{
        .alpha_us = alpha,
        .links = {static_cast<std::uint32_t>(source), static_cast<std::uint32_t>(ranks + target)}};
  };
  network.reduce_us_per_byte = gamma;
  return network;
}

inline std::vector<Schedule> built(const char* name, Collective collective, Rank ranks,
                                   Rank root = 0) {
  return build_all(*find_algorithm(name), {collective, ranks, root});
}

inline double simulated_us(const std::vector<Schedule>& schedules, const Network& network,
                           const Load& load) {
  const Result<Simulated> result = simulate(schedules, network, load);
  EXPECT_TRUE(result.ok()) << result.status().text();
  return result.ok() ? result->us : std::nan("");
}

}  // namespace coll
