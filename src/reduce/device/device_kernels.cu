// SPDX-License-Identifier: Apache-2.0
// The kernels as nvcc compiles them. No name is mangled: the driver finds them by it.
#define COLL_UNROLL _Pragma("unroll")
#define COLL_KERNEL(name, Arguments, body)                                       \
  extern "C" __global__ void name(const __grid_constant__ Arguments arguments) { \
    body(arguments);                                                             \
  }

#include "reduce/device/device_kernels.cuh"
