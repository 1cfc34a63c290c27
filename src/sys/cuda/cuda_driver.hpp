// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, as far as it is used, where the program has loaded it.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/memory_kind.hpp"
#include "base/status.hpp"

namespace coll {

using CudaContext = struct CUctx_st*;
using CudaStream = struct CUstream_st*;

/// Functions of NVIDIA's driver API (its reference manual; the names behind the arrows are those of
/// libcuda.so.1). All return 0 for success.
struct CudaDriver {
  /// cuPointerGetAttributes
  int (*pointer_attributes)(unsigned count, const int* attributes, void** values,
                            unsigned long long pointer) = nullptr;
  // The others may be null: the library then knows a GPU's memory, and cannot copy it.
  int (*error_name)(int error, const char** name) = nullptr;    ///< cuGetErrorName
  int (*error_string)(int error, const char** text) = nullptr;  ///< cuGetErrorString
  int (*device_get)(int* device, int ordinal) = nullptr;        ///< cuDeviceGet
  int (*primary_context_retain)(CudaContext* context,
                                int device) = nullptr;                 ///< cuDevicePrimaryCtxRetain
  int (*context_push)(CudaContext context) = nullptr;                  ///< cuCtxPushCurrent_v2
  int (*context_pop)(CudaContext* context) = nullptr;                  ///< cuCtxPopCurrent_v2
  int (*stream_create)(CudaStream* stream, unsigned flags) = nullptr;  ///< cuStreamCreate
  int (*stream_synchronize)(CudaStream stream) = nullptr;              ///< cuStreamSynchronize
  int (*copy_async)(unsigned long long to, unsigned long long from, std::size_t bytes,
                    CudaStream stream) = nullptr;  ///< cuMemcpyAsync
  int (*copy)(unsigned long long to, unsigned long long from,
              std::size_t bytes) = nullptr;  ///< cuMemcpy
  int (*host_register)(void* begin, std::size_t bytes,
                       unsigned flags) = nullptr;  ///< cuMemHostRegister_v2
  int (*host_unregister)(void* begin) = nullptr;   ///< cuMemHostUnregister

  [[nodiscard]] bool copies() const { return missing().empty(); }
  /// The first function that it has not; "" if it has all.
  [[nodiscard]] std::string missing() const;
  /// "CUDA_ERROR_INVALID_VALUE (invalid argument)"
  [[nodiscard]] std::string describe(int error) const;
};

/// Null as long as the program has not loaded the driver: then there is no memory of a GPU. This
/// library does not load it. Once it is there, it stays. Any thread.
const CudaDriver* loaded_cuda_driver();
/// The same, but only if a call of that has found it before: one load.
inline constinit std::atomic<const CudaDriver*> g_cuda_driver{nullptr};
inline const CudaDriver* found_cuda_driver() {
  return g_cuda_driver.load(std::memory_order_acquire);
}

/// Where the byte at `address` lies. Managed memory, and what the driver does not know, is the
/// host's.
MemoryPlace place_of(const CudaDriver& driver, const void* address);

}  // namespace coll
