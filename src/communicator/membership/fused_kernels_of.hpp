// SPDX-License-Identifier: Apache-2.0
// Whether the ranks' GPUs can move calls by kernels that talk to each other.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "communicator/membership/card.hpp"
#include "executor/device/fused/fused_executor.hpp"

namespace coll {

/// A number that no other process has.
std::uint64_t number_of_process();

/// The executor of fused kernels of this rank, which is on that GPU; null, with a line in the log:
/// it has none. Such kernels wait for one another, so all must run at once, and each must reach the
/// others' GPUs. Both is known where all ranks are threads of one process.
std::unique_ptr<FusedExecutor> fused_kernels_of(const std::vector<Card>& cards, Rank rank,
                                                StreamDevice& gpu);

}  // namespace coll
