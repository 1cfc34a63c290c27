// SPDX-License-Identifier: Apache-2.0
// The context of a device that the CUDA runtime and frameworks use.
#include "sys/cuda/primary_context.hpp"

#include <string>

namespace coll {

Result<PrimaryContext> PrimaryContext::retain(const CudaDriver& driver, int ordinal) {
  const std::string name = "CUDA device " + std::to_string(ordinal);
  PrimaryContext primary;
  if (const int error = driver.device_get(&primary.device, ordinal))
    return driver.failed_to(name, error);
  if (const int error = driver.primary_context_retain(&primary.context, primary.device))
    return driver.failed_to(name + ": its primary context", error);
  return primary;
}

}  // namespace coll
