// SPDX-License-Identifier: Apache-2.0
// What a thread may ask the driver for while streams are captured.
#pragma once
#include "sys/cuda/cuda_driver.hpp"

namespace coll {

/// A capture, in any thread, may forbid this one to allocate and the like, lest that wait for the
/// captured stream. While this lives, none does. The driver has all that `missing_for_streams()`
/// looks for.
class BesideCaptures {
 public:
  explicit BesideCaptures(const CudaDriver& driver)
      : driver_(driver), exchanged_(driver.exchange_capture_mode(&mode_) == 0) {}
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures() {
    if (exchanged_) driver_.exchange_capture_mode(&mode_);
  }

 private:
  const CudaDriver& driver_;
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED; then the one before
  const bool exchanged_;
};

}  // namespace coll
