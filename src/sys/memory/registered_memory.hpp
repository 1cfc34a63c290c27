// SPDX-License-Identifier: Apache-2.0
// Memory of the program's own that it promises to keep where it is.
#pragma once
#include <cstddef>

#include "base/status.hpp"

namespace coll {

/// Lets devices use [data, data + bytes) where it lies, and others map it, unless it is private.
/// Private memory may be of several mappings. Other memory must lie in one allocation of a GPU
/// (RegisteredDeviceMemory), or in one shared mapping of a descriptor that is open in this process,
/// and is sealed against shrinking or can be. A copy of the descriptor is kept, so the program may
/// close its own.
Status register_memory(const std::byte* data, std::size_t bytes);
/// Ends what began there.
Status deregister_memory(const std::byte* data);

}  // namespace coll
