// SPDX-License-Identifier: Apache-2.0
// The world: what all ranks know about all ranks, the input of the planner.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "planner/cost_model.hpp"
#include "planner/tuning_table.hpp"
#include "schedule/simulate/network.hpp"

namespace coll {

/// What all ranks know about all ranks. They agree on it while they create the communicator; it is
/// equal on every rank.
struct World {
  Layout layout;
  CostView view;
  std::uint32_t slot_bytes = 256 * 1024;    ///< the longest possible message
  std::uint32_t passing_bytes = 64 * 1024;  ///< a good length of slices that pass through slots
  std::uint32_t max_lanes = 4;
  bool shared_memory = true;  ///< every pair of ranks uses shared memory
  /// The network of a described machine; null on a real one: shared memory and TCP, by the layout.
  std::shared_ptr<const Network> network;
  // rank 0's knobs
  std::string algorithm;  ///< COLL_ALGORITHM
  Cut cut = {};           ///< COLL_LANES and COLL_SLICE_BYTES
  // rank 0's tuning table
  std::vector<TuningPoint> tuning;  ///< for this world; they override the model
  std::string tuning_file;
};

}  // namespace coll
