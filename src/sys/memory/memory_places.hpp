// SPDX-License-Identifier: Apache-2.0
// Tells the memory of GPUs from the memory of processors.
#pragma once
#include "base/memory_kind.hpp"

namespace coll {

/// Where the byte at `address` lies. Asks the CUDA driver, if the program has loaded it: without
/// the driver there is no memory of a GPU. This library does not load it. Memory that the driver
/// does not know is the host's. Any thread.
MemoryPlace place_of_memory(const void* address);

}  // namespace coll
