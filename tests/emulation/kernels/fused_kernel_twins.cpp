// SPDX-License-Identifier: Apache-2.0
// The fused kernel, from the same source, for the host.
#include "emulation/kernels/concurrent_threads.hpp"
// What a kernel is comes first.
#include "executor/device/fused/fused_kernels.cuh"
