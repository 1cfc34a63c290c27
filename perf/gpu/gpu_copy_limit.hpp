// SPDX-License-Identifier: Apache-2.0
// How fast a GPU copies within its own memory: the limit that operations on it are held against.
#pragma once
#include <cstddef>
#include <vector>

#include "gpu/gpu_device.hpp"

namespace perf {

struct GpuCopy {
  std::size_t bytes = 0;   ///< that were copied
  double moved_per_s = 0;  ///< bytes read and bytes written, as STREAM's copy counts
};

/// One copy that took so long.
GpuCopy timed_copy(std::size_t bytes, double seconds);

struct GpuCopyLimit {
  std::vector<GpuCopy> copies;               ///< the best of each size, the largest size first
  [[nodiscard]] double moved_per_s() const;  ///< of the best size
};

/// The sizes to try: from 1 GiB down, or as much as half of the free memory allows for both ends of
/// the copy, by halves. All are far beyond a cache of tens of MiB, where that memory is there.
std::vector<std::size_t> copy_sizes(std::size_t free_bytes);

/// Times copies by CUDA's events. Nobody else should use the GPU meanwhile.
GpuCopyLimit measure_copy_limit(const Gpu& gpu);

}  // namespace perf
