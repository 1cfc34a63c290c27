// SPDX-License-Identifier: Apache-2.0
// Finds out before any connection whether a GPU reaches the memory of another process's GPU.
#pragma once
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "sys/cuda/cuda_driver.hpp"

namespace coll {

/// What others need to try. `memory` is an allocation of the context's device, or part of it.
/// Nobody frees it before all have tried.
Result<std::string> offer_memory(CudaContext context, CudaAddress memory);

/// Fails, with the reason, where the device of this context does not reach the memory that a
/// process of this host has offered. `own`: this rank's own offer, of the same context. The first
/// time, memory of another process is opened and closed again.
Status try_offered_memory(CudaContext context, std::string_view own, std::string_view offered);

}  // namespace coll
