// SPDX-License-Identifier: Apache-2.0
// The context of a device that the CUDA runtime and frameworks use.
#pragma once
#include "sys/cuda/cuda_driver.hpp"

namespace coll {

struct PrimaryContext {
  int device = -1;  ///< the driver's handle
  CudaContext context = nullptr;

  /// Of the device with CUDA's number. It is kept for good: its owner may end after the driver has.
  static Result<PrimaryContext> retain(const CudaDriver& driver, int ordinal);
};

}  // namespace coll
