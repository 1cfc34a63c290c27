// SPDX-License-Identifier: Apache-2.0
// The kernels of the device, from the same source, for the host: a library of functions by name.
#include "emulation/kernels/cuda_shim.hpp"
// What a kernel is comes first.
#include "reduce/device/device_kernels.cuh"
