// SPDX-License-Identifier: Apache-2.0
// Which context of CUDA the functions that this thread calls are about.
#pragma once
#include "sys/cuda/cuda_driver.hpp"

namespace coll {

/// Makes a context current in this thread for as long as it lives; then the one before is again.
class CurrentContext {
 public:
  CurrentContext(const CudaDriver& driver, CudaContext context)
      : driver_(driver), error_(driver.context_push(context)) {}
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() {
    CudaContext popped = nullptr;
    if (error_ == 0) driver_.context_pop(&popped);
  }
  /// Of making it the thread's.
  [[nodiscard]] int error() const { return error_; }

 private:
  const CudaDriver& driver_;
  int error_;
};

}  // namespace coll
