// SPDX-License-Identifier: Apache-2.0
// The fused kernel as nvcc compiles it. Its name is not mangled: the driver finds it by that.
#define COLL_UNROLL _Pragma("unroll")
#define COLL_CALLED __noinline__
#define COLL_PAUSE() static_cast<void>(0)
#define COLL_LOOKS_IN_VAIN 1024
#define COLL_FUSED_KERNEL(name, Arguments, Shared, body)              \
  extern "C" __global__ void __launch_bounds__(coll::fused::kThreads) \
      name(const __grid_constant__ Arguments arguments) {             \
    __shared__ Shared shared;                                         \
    body(arguments, shared);                                          \
  }

#include "executor/device/fused/fused_kernels.cuh"
