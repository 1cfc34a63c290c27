// SPDX-License-Identifier: Apache-2.0
// Makes the optimizer that --offload names.
#include "optimizer_place.hpp"

#include <fmt/format.h>

#include "../offload/delayed_optimizer.hpp"
#include "../offload/file_optimizer.hpp"
#include "../offload/host_optimizer.hpp"
#include "../optimizer/memory_optimizer.hpp"

namespace training {

std::unique_ptr<Optimizer> OptimizerPlace::make(Owned owned) {
  if (options_.offload == "none") {
    description_ = "on the device";
    return std::make_unique<MemoryOptimizer>(std::move(owned), device_);
  }
  if (options_.trainer.delay == 0) return make_off_device(std::move(owned), host_.link);
  auto optimizer = std::make_unique<DelayedOptimizer>(
      owned, host_.arena, host_.link,
      [this](Owned of_copies) { return make_off_device(std::move(of_copies), within_host_); });
  description_ += fmt::format(", delayed by a step from step {} on", options_.trainer.delay);
  return optimizer;
}

std::unique_ptr<Optimizer> OptimizerPlace::make_off_device(Owned owned, DeviceLink& link) {
  WorkLog* const work = options_.trace.empty() ? nullptr : &work_;
  if (options_.offload == "cpu") {
    description_ = "in host memory";
    return std::make_unique<HostOptimizer>(
        std::move(owned), host_.arena, link,
        HostOptions{.adam_threads = options_.adam_threads, .work = work});
  }
  auto optimizer = std::make_unique<FileOptimizer>(
      std::move(owned), host_.arena, link,
      FileOptions{.folder = options_.offload, .adam_threads = options_.adam_threads, .work = work});
  description_ = "in a file, by " + optimizer->means();
  return optimizer;
}

}  // namespace training
