// SPDX-License-Identifier: Apache-2.0
// Where the optimizer's states lie: on the device, in host memory or in a file.
#pragma once
#include <memory>
#include <string>

#include "../offload/host_memory.hpp"
#include "../offload/work_log.hpp"
#include "../optimizer/optimizer.hpp"
#include "train_options.hpp"

namespace training {

/// Must outlive the optimizer that it makes.
class OptimizerPlace {
 public:
  OptimizerPlace(const TrainOptions& options, Arena& device, HostMemory& host)
      : options_(options), device_(device), host_(host) {}
  std::unique_ptr<Optimizer> make(Owned owned);
  /// "in host memory" and the like, of what was made.
  [[nodiscard]] const std::string& describe() const { return description_; }
  /// What optimizers off the device did, if there is a --trace.
  [[nodiscard]] WorkLog& work() { return work_; }

 private:
  std::unique_ptr<Optimizer> make_off_device(Owned owned, DeviceLink& link);

  const TrainOptions& options_;
  Arena& device_;
  HostMemory& host_;
  DeviceLink within_host_;
  WorkLog work_;
  std::string description_;
};

}  // namespace training
