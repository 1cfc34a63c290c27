// SPDX-License-Identifier: Apache-2.0
// How the emulated CUDA driver calls a kernel's twin: the host function that does the kernel's
// work.
#pragma once
#include <cstddef>

/// What a launch says beside the kernel's parameters.
struct EmulatedLaunch {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;  // dynamic shared memory
};

/// A twin does the work of the whole grid, on the thread of the stream. `params` points to a copy
/// of the one structure that the kernel takes by value. Twins lie in the shared library that
/// EMUCUDA_KERNELS names.
using EmulatedKernel = void(const void* params, const EmulatedLaunch* launch);

/// Begins the definition of the twin of kernel `name`, with `params` and `launch` as its arguments.
/// It exports `name`, and the size of its parameters as `name_params_bytes`: the driver copies them
/// at the launch.
#define EMULATED_KERNEL(name, Params)                                                        \
  static void name##_twin(const Params& params, const EmulatedLaunch& launch);               \
  extern "C" __attribute__((visibility("default"))) void name(const void* params,            \
                                                              const EmulatedLaunch* launch); \
  extern "C" void name(const void* params, const EmulatedLaunch* launch) {                   \
    name##_twin(*static_cast<const Params*>(params), *launch);                               \
  }                                                                                          \
  extern "C" __attribute__((visibility("default"))) const std::size_t name##_params_bytes;   \
  extern "C" const std::size_t name##_params_bytes = sizeof(Params);                         \
  static void name##_twin([[maybe_unused]] const Params& params,                             \
                          [[maybe_unused]] const EmulatedLaunch& launch)
