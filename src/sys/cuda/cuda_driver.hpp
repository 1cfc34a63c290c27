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
using CudaEvent = struct CUevent_st*;
using CudaModule = struct CUmod_st*;
using CudaFunction = struct CUfunc_st*;
/// An address that a device knows (CUdeviceptr).
using CudaAddress = unsigned long long;
inline CudaAddress cuda_address(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

/// What a stream or an event that is not done answers (CUDA_ERROR_NOT_READY).
inline constexpr int kCudaNotReady = 600;

/// What another process needs to map an allocation of a device (CUipcMemHandle).
struct CudaIpcHandle {
  char bytes[64];
};
/// A device's identity, the same in every process (CUuuid).
struct CudaUuid {
  char bytes[16];
};

/// Functions of NVIDIA's driver API (its reference manual; the names behind the arrows are those of
/// libcuda.so.1). All return 0 for success.
struct CudaDriver {
  /// cuPointerGetAttributes
  int (*pointer_attributes)(unsigned count, const int* attributes, void** values,
                            CudaAddress pointer) = nullptr;
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
  int (*copy_async)(CudaAddress to, CudaAddress from, std::size_t bytes,
                    CudaStream stream) = nullptr;                              ///< cuMemcpyAsync
  int (*copy)(CudaAddress to, CudaAddress from, std::size_t bytes) = nullptr;  ///< cuMemcpy
  int (*host_register)(void* begin, std::size_t bytes,
                       unsigned flags) = nullptr;  ///< cuMemHostRegister_v2
  int (*host_unregister)(void* begin) = nullptr;   ///< cuMemHostUnregister
  // Without one of the following, the library does not work on streams of CUDA.
  int (*device_attribute)(int* value, int attribute,
                          int device) = nullptr;                     ///< cuDeviceGetAttribute
  int (*device_uuid)(CudaUuid* uuid, int device) = nullptr;          ///< cuDeviceGetUuid_v2
  int (*can_access_peer)(int* can, int device, int peer) = nullptr;  ///< cuDeviceCanAccessPeer
  int (*context_current)(CudaContext* context) = nullptr;            ///< cuCtxGetCurrent
  int (*context_device)(int* device) = nullptr;                      ///< cuCtxGetDevice
  int (*enable_peer)(CudaContext peer, unsigned flags) = nullptr;    ///< cuCtxEnablePeerAccess
  int (*memory_allocate)(CudaAddress* address, std::size_t bytes) = nullptr;  ///< cuMemAlloc_v2
  int (*memory_free)(CudaAddress address) = nullptr;                          ///< cuMemFree_v2
  int (*address_range)(CudaAddress* base, std::size_t* bytes,
                       CudaAddress address) = nullptr;  ///< cuMemGetAddressRange_v2
  int (*host_allocate)(void** begin, std::size_t bytes,
                       unsigned flags) = nullptr;  ///< cuMemHostAlloc
  int (*host_free)(void* begin) = nullptr;         ///< cuMemFreeHost
  int (*host_address)(CudaAddress* device, void* host,
                      unsigned flags) = nullptr;  ///< cuMemHostGetDevicePointer_v2
  int (*ipc_handle)(CudaIpcHandle* handle, CudaAddress address) = nullptr;  ///< cuIpcGetMemHandle
  int (*ipc_open)(CudaAddress* address, CudaIpcHandle handle,
                  unsigned flags) = nullptr;        ///< cuIpcOpenMemHandle_v2
  int (*ipc_close)(CudaAddress address) = nullptr;  ///< cuIpcCloseMemHandle
  int (*stream_context)(CudaStream stream, CudaContext* context) = nullptr;  ///< cuStreamGetCtx
  int (*stream_create_with_priority)(CudaStream* stream, unsigned flags,
                                     int priority) = nullptr;  ///< cuStreamCreateWithPriority
  int (*stream_priorities)(int* least,
                           int* greatest) = nullptr;   ///< cuCtxGetStreamPriorityRange
  int (*stream_destroy)(CudaStream stream) = nullptr;  ///< cuStreamDestroy_v2
  int (*stream_query)(CudaStream stream) = nullptr;    ///< cuStreamQuery
  int (*stream_wait_event)(CudaStream stream, CudaEvent event,
                           unsigned flags) = nullptr;  ///< cuStreamWaitEvent
  int (*stream_wait_word)(CudaStream stream, CudaAddress word, std::uint32_t value,
                          unsigned flags) = nullptr;  ///< cuStreamWaitValue32_v2
  int (*stream_write_word)(CudaStream stream, CudaAddress word, std::uint32_t value,
                           unsigned flags) = nullptr;  ///< cuStreamWriteValue32_v2
  int (*stream_is_capturing)(CudaStream stream, int* status) = nullptr;  ///< cuStreamIsCapturing
  int (*exchange_capture_mode)(int* mode) = nullptr;  ///< cuThreadExchangeStreamCaptureMode
  int (*launch_host)(CudaStream stream, void (*function)(void*),
                     void* argument) = nullptr;                       ///< cuLaunchHostFunc
  int (*event_create)(CudaEvent* event, unsigned flags) = nullptr;    ///< cuEventCreate
  int (*event_destroy)(CudaEvent event) = nullptr;                    ///< cuEventDestroy_v2
  int (*event_record)(CudaEvent event, CudaStream stream) = nullptr;  ///< cuEventRecord
  int (*event_synchronize)(CudaEvent event) = nullptr;                ///< cuEventSynchronize
  int (*event_query)(CudaEvent event) = nullptr;                      ///< cuEventQuery
  int (*event_elapsed)(float* milliseconds, CudaEvent begin,
                       CudaEvent end) = nullptr;                        ///< cuEventElapsedTime
  int (*module_load)(CudaModule* module, const void* image) = nullptr;  ///< cuModuleLoadData
  int (*module_function)(CudaFunction* function, CudaModule module,
                         const char* name) = nullptr;  ///< cuModuleGetFunction
  int (*launch)(CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                CudaStream stream, void** parameters, void** extra) = nullptr;  ///< cuLaunchKernel

  /// Without this one, there are no dma-bufs of a GPU's memory.
  int (*range_handle)(void* handle, CudaAddress begin, std::size_t bytes, int type,
                      unsigned long long flags) = nullptr;  ///< cuMemGetHandleForAddressRange

  /// An event that keeps no time.
  int create_untimed(CudaEvent* event) const {
    constexpr unsigned kUntimed = 2;  // CU_EVENT_DISABLE_TIMING
    return event_create(event, kUntimed);
  }
  [[nodiscard]] bool copies() const { return missing().empty(); }
  /// The first function that it has not and copies need; "" if it has all.
  [[nodiscard]] std::string missing() const;
  /// The same for work on streams of CUDA.
  [[nodiscard]] std::string missing_for_streams() const;
  /// "CUDA_ERROR_INVALID_VALUE (invalid argument)"
  [[nodiscard]] std::string describe(int error) const;
  /// The failure of a function that gave this error, for what it was called. `hint`: what to do.
  [[nodiscard]] Status failed_to(const std::string& what, int error, std::string hint = {}) const;
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
/// Of the allocation that the address lies in: no other one of the process ever has the same, also
/// where it lies at the same address. 0: the driver knows none there.
unsigned long long allocation_of(const CudaDriver& driver, CudaAddress address);

}  // namespace coll
