// SPDX-License-Identifier: Apache-2.0
// Loads the CUDA driver.
#include "gpu/gpu_driver.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace perf {

std::string GpuDriver::describe(int error) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name(error, &name) != 0 || name == nullptr)
    return "CUDA error " + std::to_string(error);
  if (error_string(error, &text) != 0 || text == nullptr) return name;
  return std::string(name) + " (" + text + ")";
}

const GpuDriver* load_gpu_driver(std::string& why) {
  static std::string reason;
  static const GpuDriver* const driver = []() -> const GpuDriver* {
    static GpuDriver table;
    // Streams of ranks that wait for each other must not share a queue of the hardware, and the
    // driver has 8 of these by default (docs/gotchas.md). It looks when it is initialised.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // NOLINT(concurrency-mt-unsafe): before ranks
    // The handle is kept: the library finds the driver among those that are loaded.
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      reason = std::string("there is no CUDA driver: ") + dlerror();
      return nullptr;
    }
#define PERF_GPU_FIND(name, symbol, parameters)                                \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(library, symbol)); \
  if (table.name == nullptr && reason.empty())                                 \
    reason = std::string("the CUDA driver, libcuda.so.1, has no function ") + symbol;
    PERF_GPU_FUNCTIONS(PERF_GPU_FIND)
#undef PERF_GPU_FIND
    return reason.empty() ? &table : nullptr;
  }();
  if (driver == nullptr) why = reason;
  return driver;
}

}  // namespace perf
