// SPDX-License-Identifier: Apache-2.0
// Memory of GPUs that the program has registered.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "sys/cuda/device_memory.hpp"

namespace coll {

/// Part of one allocation of a GPU, which can be exported to other processes. It may not be freed
/// while others have it open: so who has exported it keeps this until they have closed it.
struct RegisteredDeviceMemory {
  /// As many as a process may have at once.
  static constexpr unsigned kMost = 23;

  CudaAddress begin = 0;
  std::size_t bytes = 0;
  int device = -1;                    ///< CUDA's number in this process
  unsigned entry = 0;                 ///< 1 to kMost: of no other that is registered now
  unsigned long long allocation = 0;  ///< tells it from a later one at the same address
  ExportedMemory exported;

  using Kept = std::shared_ptr<const RegisteredDeviceMemory>;

  /// `address` is memory of a GPU.
  static Status add(const void* address, std::size_t bytes);
  /// Forgets what was added to begin there. Refused while others keep it.
  static Status remove(const void* address);
  /// Does one begin there?
  static bool begins_at(const void* address);
  /// The entry of the one that all of these bytes are in; 0: there is none, or its memory has been
  /// freed, and what lies there now is other memory. Any thread.
  static unsigned entry_of(const void* address, std::size_t bytes);
  static std::vector<Kept> of_device(int device);
};

}  // namespace coll
