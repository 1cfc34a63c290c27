// SPDX-License-Identifier: Apache-2.0
// What every function of the driver asks before it does anything.
#pragma once
#include "emulation/cuda/cuda_abi.hpp"

namespace emucuda {

enum class Needs { driver, context };

/// Why a call cannot be: the driver is not initialized, the caller is a host function of a stream,
/// or its thread has no current context.
CUresult refuse(Needs needs);
[[nodiscard]] bool is_device(int device);

/// While one lives, this thread runs a host function of a stream.
class HostFunctionRuns {
 public:
  HostFunctionRuns();
  HostFunctionRuns(const HostFunctionRuns&) = delete;
  HostFunctionRuns& operator=(const HostFunctionRuns&) = delete;
  ~HostFunctionRuns();
};

}  // namespace emucuda
