// SPDX-License-Identifier: Apache-2.0
// How long schedules take on a network.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "schedule/schedule.hpp"
#include "schedule/simulate/network.hpp"
#include "schedule/symmetry.hpp"

namespace coll {

/// A call of the schedules, and how it is cut.
struct Load {
  double bytes = 0;  ///< of the larger buffer of a rank
  /// The longest message and its chunks, over all ranks, as in a plan. 0 bytes: one pass.
  double slice_bytes = 0;
  std::uint32_t message_chunks = 1;
  std::uint32_t copies = 1;   ///< of the lanes, on interleaved windows
  std::uint32_t credits = 4;  ///< messages that a connection holds
  double effort = 1e6;        ///< about so many steps are worth simulating
  bool in_a_row = false;      ///< find Simulated::each_us too
  bool one_buffer = false;    ///< input and output are the same: no chunk moves to its own place
};

/// What is not as it should be.
struct Disturbance {
  std::vector<double> start_us{};  ///< by rank: begins so much later; empty: all at once
  std::vector<double> slowness{};  ///< by rank: its steps take so many times as long; empty: 1
  struct OnLink {
    std::uint32_t link = 0;
    double busy = 0;     ///< the part of its capacity that other traffic takes, in [0, 1]
    double from_us = 0;  ///< holds for messages that reach the link from then on; 1 is a failure
  };
  std::vector<OnLink> links{};
};

/// What a simulated call did.
struct Simulated {
  double us = 0;                ///< until the last rank is done
  double each_us = 0;           ///< of one of many calls in a row, if asked for
  std::vector<double> rank_us;  ///< by simulated rank
  double messages = 0;          ///< of all ranks
  /// What was busy for the longest part of the time: a link, or "processor"; "latency" if nothing
  /// was for half of it.
  std::string bottleneck;
  double busy = 0;              ///< the part of the time that it was
  std::vector<double> link_us;  ///< by link: how long it was busy
};

/// Runs all ranks' schedules at once, in simulated time. Deterministic: events of one time happen
/// in the order in which they were caused. Long calls are simulated for as many passes as it takes
/// for the pipeline to fill, and the rest at the rate reached then.
///
/// With `symmetry` the schedules are those of the first group, and `network` has its links only: a
/// link into the group stands for that link of every group.
///
/// Fails where ranks wait for each other for ever, naming who waits for whom: a link that has
/// failed, or schedules that no proof would pass.
Result<Simulated> simulate(std::span<const Schedule> schedules, const Network& network,
                           const Load& load, const Disturbance& disturbance = {},
                           const Symmetry& symmetry = {});

}  // namespace coll
