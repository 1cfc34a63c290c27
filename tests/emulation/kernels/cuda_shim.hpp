// SPDX-License-Identifier: Apache-2.0
// Compiles kernel source as C++ for the host, where each CUDA thread is one call of the kernel.
//
// COLL_KERNEL makes of a kernel its twin (emulated_launch.hpp). Threads run one after another, so
// kernels whose threads wait for one another (__syncthreads, spinning) need more than this
// (concurrent_threads.hpp).
#pragma once
#include "emulation/cuda/emulated_launch.hpp"

#define __device__
#define COLL_UNROLL

namespace coll::test {
struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};
}  // namespace coll::test

// Names of CUDA. Kernels run on several streams at once, so each host thread has its own.
inline thread_local coll::test::Dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace coll::test {

/// Calls `kernel` once for every thread of the launch.
template <class Kernel>
void run_threads(const EmulatedLaunch& launch, Kernel kernel) {
  const auto dim3_of = [](const unsigned(&n)[3]) { return Dim3{n[0], n[1], n[2]}; };
  const auto each = [](Dim3 size, Dim3& at, auto f) {
    for (at.z = 0; at.z < size.z; ++at.z)
      for (at.y = 0; at.y < size.y; ++at.y)
        for (at.x = 0; at.x < size.x; ++at.x) f();
  };
  gridDim = dim3_of(launch.grid);
  blockDim = dim3_of(launch.block);
  each(gridDim, blockIdx, [&] { each(blockDim, threadIdx, kernel); });
}

}  // namespace coll::test

#define COLL_KERNEL(name, Arguments, body)                  \
  EMULATED_KERNEL(name, Arguments) {                        \
    coll::test::run_threads(launch, [&] { body(params); }); \
  }
