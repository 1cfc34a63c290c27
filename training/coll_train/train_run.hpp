// SPDX-License-Identifier: Apache-2.0
// A run of coll-train: puts model, data and trainer together, and steps until the end.
#pragma once
#include <collectives/collectives.hpp>

#include "train_options.hpp"

namespace training {

/// Runs as one rank of `world`. Throws Failure, and then leaves alone what may wait for other
/// ranks: the process should end by _Exit.
void run_training(const TrainOptions& options, collectives::Communicator world);

/// Prints what one rank would keep and send.
void print_estimate(const TrainOptions& options, std::size_t ranks);

}  // namespace training
