// SPDX-License-Identifier: Apache-2.0
// The simulator: how long schedules take on a network.
#pragma once
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "schedule/schedule.hpp"
#include "schedule/simulate/network.hpp"
#include "schedule/symmetry.hpp"

namespace coll {

/// A call of the schedules, how it is cut, and how to simulate it.
struct Load {
  double bytes = 0;  ///< size of a rank's larger buffer
  /// Length of the longest message and its number of chunks, over all ranks, as in a plan. 0 bytes:
  /// one pass.
  double slice_bytes = 0;
  std::uint32_t message_chunks = 1;
  std::uint32_t copies = 1;   ///< copies of the lanes, on interleaved windows
  std::uint32_t credits = 4;  ///< messages that a connection holds
  double effort = 1e6;        ///< about how many steps to simulate at most
  bool in_a_row = false;      ///< also compute Simulated::each_us
  bool one_buffer = false;    ///< input and output are one: no copy of a chunk to its own place
  /// With `in_a_row`: the result matters only if us * each_us * each_us is at most this. The
  /// simulation ends early where that is certain to be more; then both are infinite.
  double most_score = std::numeric_limits<double>::infinity();
};

/// Disturbances of ranks and links.
struct Disturbance {
  std::vector<double> start_us{};  ///< by rank: delay of its start; empty: all start at once
  std::vector<double> slowness{};  ///< by rank: factor on the time of its steps; empty: 1
  struct OnLink {
    std::uint32_t link = 0;
    double busy = 0;     ///< share of its capacity that other traffic takes; 1: the link has failed
    double from_us = 0;  ///< applies to messages that reach the link from this time on
  };
  std::vector<OnLink> links{};
};

/// The result of a simulation.
struct Simulated {
  double us = 0;                  ///< time until the last rank is done
  double each_us = 0;             ///< time per call of many calls in a row, if asked for
  std::vector<double> rank_us{};  ///< by simulated rank: time until it is done
  double messages = 0;            ///< number of messages of all ranks
  /// What was busy for the largest share of the time: a link's name or "processor"; "latency" if
  /// nothing was busy for half of it.
  std::string bottleneck{};
  double busy = 0;                ///< the share of the time that the bottleneck was busy
  std::vector<double> link_us{};  ///< by link: how long it was busy
};

/// Runs the schedules of all ranks in simulated time. The simulation is deterministic: events of
/// one time happen in the order in which they were caused. It simulates as many passes of a long
/// call as it takes to fill the pipeline, and extrapolates the rest at the rate reached then.
///
/// With `symmetry`, `schedules` are the first group's and `network` has only that group's links: a
/// link into the group stands for the same link of every group.
///
/// Fails if ranks wait for each other for ever, because a link has failed or because no proof would
/// pass the schedules. The failure says who waits for whom.
Result<Simulated> simulate(std::span<const Schedule> schedules, const Network& network,
                           const Load& load, const Disturbance& disturbance = {},
                           const Symmetry& symmetry = {});

}  // namespace coll
