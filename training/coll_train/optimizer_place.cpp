// SPDX-License-Identifier: Apache-2.0
// Makes the optimizer that --offload names.
#include "optimizer_place.hpp"

#include "../offload/file_optimizer.hpp"
#include "../offload/host_optimizer.hpp"
#include "../optimizer/memory_optimizer.hpp"

namespace training {

std::unique_ptr<Optimizer> OptimizerPlace::make(Owned owned) {
  if (options_.offload == "none") {
    description_ = "on the device";
    return std::make_unique<MemoryOptimizer>(std::move(owned), device_);
  }
  if (options_.offload == "cpu") {
    description_ = "in host memory";
    return std::make_unique<HostOptimizer>(std::move(owned), host_.arena, host_.link,
                                           HostOptions{.adam_threads = options_.adam_threads});
  }
  auto optimizer = std::make_unique<FileOptimizer>(
      std::move(owned), host_.arena, host_.link,
      FileOptions{.folder = options_.offload, .adam_threads = options_.adam_threads});
  description_ = "in a file, by " + optimizer->means();
  return optimizer;
}

}  // namespace training
