// SPDX-License-Identifier: Apache-2.0
// Proves the schedules of all ranks of one call, and what the algorithm says that they cost.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "built.hpp"
#include "schedule/proof/verify.hpp"

namespace coll {

inline std::uint64_t chunks_of_largest_buffer(const std::vector<Schedule>& schedules) {
  std::uint64_t most = 0;
  for (const Schedule& schedule : schedules) {
    const ChunkMap& chunks = schedule.chunks;
    most = std::max({most, std::uint64_t{chunks.chunks(Space::input)},
                     std::uint64_t{chunks.chunks(Space::output)}});
  }
  return most;
}

/// The (peer, lane) pairs that a rank's steps name.
inline std::set<std::pair<Rank, std::size_t>> connections(const Schedule& schedule) {
  std::set<std::pair<Rank, std::size_t>> found;
  for (std::size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
    for (const Step& step : schedule.lanes[lane]) {
      if (step.receives()) found.emplace(step.source, lane);
      if (step.sends()) found.emplace(step.target, lane);
    }
  }
  return found;
}

/// The schedules are right, and cost what the algorithm says.
inline void prove(const Algorithm& algorithm, const CollectiveSpec& spec, const Layout& layout) {
  const std::vector<Schedule> schedules = build_all(algorithm, spec, layout);
  const auto result = verify(schedules);
  ASSERT_TRUE(result.ok()) << result.status().text();
  const Verified& found = *result;
  EXPECT_TRUE(found.same_order_everywhere);

  const Cost cost = algorithm.cost(spec, layout);
  const auto size = static_cast<double>(chunks_of_largest_buffer(schedules));
  // What is found of send and recv is of both sides, what is said of one.
  const bool sends = spec.collective != Collective::recv;
  const bool receives = spec.collective != Collective::send;
  EXPECT_EQ(cost.chunks, std::max(1.0, size));
  EXPECT_EQ(cost.rounds, found.rounds);
  EXPECT_EQ(cost.steps, found.steps_most);
  EXPECT_EQ(cost.scratch_chunks, found.scratch_most);
  EXPECT_EQ(cost.message_chunks, std::max(1U, found.message_most));
  EXPECT_NEAR(cost.sent * size, sends ? double(found.chunks_sent_most) : 0.0, 1e-6);
  EXPECT_NEAR(cost.received * size, receives ? double(found.chunks_received_most) : 0.0, 1e-6);
  EXPECT_NEAR(cost.reduced * size, double(found.chunks_reduced_most), 1e-6);
  std::size_t peers = 0;
  for (const Schedule& schedule : schedules) {
    peers = std::max(peers, connections(schedule).size());
  }
  EXPECT_EQ(cost.peers, peers);
}

}  // namespace coll
