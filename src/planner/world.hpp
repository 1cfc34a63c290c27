// SPDX-License-Identifier: Apache-2.0
// The world: what all ranks know of all ranks, and plans are made from.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "planner/cost_model.hpp"
#include "planner/tuning_table.hpp"
#include "schedule/simulate/network.hpp"

namespace coll {

/// What all ranks know of all ranks, agreed on while the communicator was made; equal on every
/// rank.
struct World {
  Layout layout;
  CostView view;
  std::uint32_t slot_bytes = 256 * 1024;    ///< no message is longer
  std::uint32_t passing_bytes = 64 * 1024;  ///< sensible for slices that pass through slots
  std::uint32_t max_lanes = 4;
  bool shared_memory = true;  ///< every pair of ranks talks through shared memory
  /// Of a machine that was described and not joined; null: shared memory and TCP, by the layout.
  std::shared_ptr<const Network> network;
  // rank 0's knobs
  std::string algorithm;  ///< COLL_ALGORITHM
  Cut cut = {};           ///< COLL_LANES and COLL_SLICE_BYTES
  // rank 0's tuning table
  std::vector<TuningPoint> tuning;  ///< for this world; they win over the model
  std::string tuning_file;
};

}  // namespace coll
