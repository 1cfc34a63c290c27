// SPDX-License-Identifier: Apache-2.0
// An asynchronous run of coll-train: rank 0 serves weights, the others work.
#pragma once
#include <collectives/collectives.hpp>

#include "train_options.hpp"

namespace training {

/// Runs as one rank of `world`. Throws Failure.
void run_asynchronously(const TrainOptions& options, collectives::Communicator world);

}  // namespace training
