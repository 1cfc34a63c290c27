// SPDX-License-Identifier: Apache-2.0
// Whether the ranks' GPUs can move calls by kernels that talk to each other.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "communicator/membership/assembly.hpp"
#include "communicator/membership/card.hpp"
#include "communicator/membership/reach.hpp"
#include "executor/device/fused/fused_executor.hpp"

namespace coll {

/// A number that no other process has; 0: it has none.
std::uint64_t number_of_process();

/// The executor of fused kernels of this rank, which is on that GPU; null, with a line in the log:
/// it has none. Such kernels wait for one another, so all must run at once, and each must reach the
/// others' GPUs. So all ranks must have one Card::ipc_domain, and those that share a GPU must be
/// threads of one process. `offer`: what ranks of other processes need to find out whether they
/// reach this one's GPU; "" if there are none.
std::unique_ptr<FusedExecutor> fused_kernels_of(const std::vector<Card>& cards, Rank rank,
                                                StreamDevice& gpu, std::string& offer);

/// Once all ranks have published their reaches: do they all have such kernels, which reach one
/// another's GPUs? The same answer on all ranks. Where they are of several processes, each tries to
/// reach the others', and they exchange what they found. `own`: this rank's, or null.
Result<bool> all_ranks_have_fused_kernels(const Assembly& meeting,
                                          const std::vector<Reach>& reaches,
                                          const StreamDevice* gpu, FusedExecutor* own);

}  // namespace coll
