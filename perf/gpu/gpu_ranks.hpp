// SPDX-License-Identifier: Apache-2.0
// Which ranks share a GPU, and how fast each GPU copies.
#pragma once
#include <string>
#include <vector>

#include "gpu/gpu_copy_limit.hpp"

namespace perf {

class Session;

/// One GPU, wherever it is.
struct SharedGpu {
  std::string name, bus;
  std::string uuid;        ///< as nvidia-smi writes it, "GPU-…"
  int cuda_version = 0;    ///< of the driver: 13000 for CUDA 13.0
  std::vector<int> ranks;  ///< that use it
  GpuCopyLimit limit;
};

struct GpuMap {
  std::vector<int> gpu_of_rank;                           ///< a place in `gpus`
  std::vector<int> number_of_rank;                        ///< CUDA's number in that rank's process
  std::vector<SharedGpu> gpus;                            ///< in the order of their first ranks
  [[nodiscard]] std::vector<double> moved_per_s() const;  ///< by GPU
};

/// Collective. The ranks tell each other the UUIDs of their GPUs; then the first rank of each
/// measures its copies, while the others wait.
GpuMap meet_on_gpus(const Session& session, const Gpu& gpu);

}  // namespace perf
