// SPDX-License-Identifier: Apache-2.0
// Which ranks may run fused kernels together.
#pragma once
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "base/types.hpp"
#include "sys/cuda/cuda_driver.hpp"

namespace coll {

/// Where a rank sits.
struct FusedSeat {
  std::uint64_t process[2] = {0, 0};  ///< a name of its process that no other has, on any host
  CudaUuid device{};
};

/// Kernels that wait for one another must run at once, and those of two processes on one GPU do
/// not: it gives them its time in turn. So ranks that share a GPU must be of one process. The
/// failure names two that are not. All ranks give the same answer for the same seats.
Status check_fused_seats(std::span<const FusedSeat> seats);

/// How many of these ranks use the GPU of this one.
unsigned ranks_on_device(std::span<const FusedSeat> seats, Rank rank);

}  // namespace coll
