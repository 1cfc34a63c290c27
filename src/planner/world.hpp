// SPDX-License-Identifier: Apache-2.0
// The world: what all ranks know about all ranks, the input of the planner.
#pragma once
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/algorithms.hpp"
#include "planner/costs/copy_factors.hpp"
#include "planner/costs/cost_model.hpp"
#include "planner/costs/measured_costs.hpp"
#include "planner/tuning_table.hpp"
#include "schedule/simulate/network.hpp"

namespace coll {

/// What the cost model is told of the ranks' machines.
struct CostView {
  PathCost CostConstants::*path = &CostConstants::memory;      ///< the slowest path in use
  PathCost CostConstants::*between = &CostConstants::network;  ///< paths between hosts
  ProbeCost measured = {};    ///< when ranks met; 0: not known. Predictions alone read it
  CopyFactors factors = {};   ///< of it, for plans of operations that do not reduce
  double ranks_per_core = 1;  ///< on the most crowded host
  /// Cores of each host. A single value: all ranks share these cores, although they are no host of
  /// the layout. Empty: every host is as crowded as ranks_per_core says.
  std::vector<std::uint32_t> cores;
};

/// What all ranks know about all ranks. They agree on it while they create the communicator; it is
/// equal on every rank.
struct World {
  Layout layout;
  CostView view;
  std::shared_ptr<const CostModel> model = default_cost_model();  ///< never null
  std::uint32_t slot_bytes = 256 * 1024;                          ///< the longest possible message
  std::uint32_t passing_bytes = 64 * 1024;  ///< a good length of slices that pass through slots
  /// Messages of a connection that predictions count on: COLL_CREDITS, else what shared memory has.
  /// TCP has fewer slots, and the kernel's buffers behind them.
  std::uint32_t credits = 8;
  std::uint32_t max_lanes = 4;
  bool shared_memory = true;  ///< every pair of ranks uses shared memory
  /// The network of a described machine, or of ranks that met with a GPU each (set_device_network).
  /// Null: shared memory and TCP, by the layout.
  std::shared_ptr<const Network> network;
  /// Of such ranks: the same with what they measured. Null on a described machine. For operations
  /// that do not reduce, and for predictions of all.
  std::shared_ptr<const Network> measured_network;
  // rank 0's knobs
  std::string algorithm;           ///< COLL_ALGORITHM
  Cut cut = {};                    ///< COLL_LANES and COLL_SLICE_BYTES
  SumOrder order = SumOrder::any;  ///< COLL_ORDER; plans are told by their key
  // rank 0's tuning table; `model` may come from it, too
  std::vector<TuningPoint> tuning;  ///< for this world; they override the model
  std::string tuning_file;

  /// All that plans depend on, beside the copy factors, which not all operations use
  /// (factors_in_plans), and the operation. Networks are the same only if they are one.
  [[nodiscard]] auto plan_inputs() const {
    return std::tie(layout, view.path, view.between, view.ranks_per_core, view.cores,
                    model->constants, slot_bytes, passing_bytes, credits, max_lanes, shared_memory,
                    network, algorithm, cut, tuning);
  }
  /// Nobody waits for its plans but a person, and the model's error is not known.
  [[nodiscard]] bool described() const { return network && !measured_network; }
  [[nodiscard]] const CostConstants& costs() const { return model->constants; }
  [[nodiscard]] const PathCost& path() const { return costs().*view.path; }
  [[nodiscard]] const PathCost& between() const { return costs().*view.between; }
  /// The factors to choose an operation's algorithm and cut with. Operations that reduce use the
  /// plain constants, because the bits of a sum must not depend on a measurement.
  [[nodiscard]] CopyFactors factors_for(Collective collective) const {
    return reduces(collective) ? CopyFactors{} : view.factors;
  }
  /// The factors that its plans depend on at all: of two ranks they may also decide whether results
  /// of a sum are fetched, each element of which is of one operation in any plan.
  [[nodiscard]] CopyFactors factors_in_plans(const CollectiveSpec& spec) const {
    return spec.ranks == 2 ? view.factors : factors_for(spec.collective);
  }
  /// The constants to plan calls of an operation with.
  [[nodiscard]] CostConstants costs_for(Collective collective) const {
    return scaled(costs(), factors_for(collective));
  }
  /// The constants that predict best what a plan takes on this machine.
  [[nodiscard]] CostConstants expected_costs() const {
    return measured_costs(costs(), view.measured, view.ranks_per_core);
  }
};

}  // namespace coll
