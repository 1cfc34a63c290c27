// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as the tools use it: found when the program starts, never linked.
#pragma once
#include <cstddef>
#include <string>

namespace perf {

using GpuAddress = unsigned long long;  ///< CUdeviceptr
using GpuContext = struct GpuContextState*;
using GpuStream = struct GpuStreamState*;
using GpuEvent = struct GpuEventState*;
using GpuModule = struct GpuModuleState*;
using GpuFunction = struct GpuFunctionState*;
using GpuGraph = struct GpuGraphState*;
using GpuLaunchable = struct GpuLaunchableState*;  ///< CUgraphExec
struct GpuUuid {
  unsigned char bytes[16];
};

/// X(our name, the name in libcuda.so.1, parameters): functions of NVIDIA's driver API, as its
/// reference manual has them. All return 0 for success.
#define PERF_GPU_FUNCTIONS(X)                                                                   \
  X(init, "cuInit", (unsigned flags))                                                           \
  X(version, "cuDriverGetVersion", (int* version))                                              \
  X(error_name, "cuGetErrorName", (int error, const char** name))                               \
  X(error_string, "cuGetErrorString", (int error, const char** text))                           \
  X(device_count, "cuDeviceGetCount", (int* count))                                             \
  X(device_get, "cuDeviceGet", (int* device, int ordinal))                                      \
  X(device_name, "cuDeviceGetName", (char* name, int length, int device))                       \
  X(device_uuid, "cuDeviceGetUuid_v2", (GpuUuid * uuid, int device))                            \
  X(device_bus, "cuDeviceGetPCIBusId", (char* id, int length, int device))                      \
  X(context_retain, "cuDevicePrimaryCtxRetain", (GpuContext * context, int device))             \
  X(context_set, "cuCtxSetCurrent", (GpuContext context))                                       \
  X(memory_info, "cuMemGetInfo_v2", (std::size_t * free, std::size_t * total))                  \
  X(memory_allocate, "cuMemAlloc_v2", (GpuAddress * address, std::size_t bytes))                \
  X(memory_free, "cuMemFree_v2", (GpuAddress address))                                          \
  X(host_allocate, "cuMemHostAlloc", (void** memory, std::size_t bytes, unsigned flags))        \
  X(host_free, "cuMemFreeHost", (void* memory))                                                 \
  X(to_device, "cuMemcpyHtoD_v2", (GpuAddress to, const void* from, std::size_t bytes))         \
  X(to_host, "cuMemcpyDtoH_v2", (void* to, GpuAddress from, std::size_t bytes))                 \
  X(copy_async, "cuMemcpyDtoDAsync_v2",                                                         \
    (GpuAddress to, GpuAddress from, std::size_t bytes, GpuStream stream))                      \
  X(to_device_async, "cuMemcpyHtoDAsync_v2",                                                    \
    (GpuAddress to, const void* from, std::size_t bytes, GpuStream stream))                     \
  X(to_host_async, "cuMemcpyDtoHAsync_v2",                                                      \
    (void* to, GpuAddress from, std::size_t bytes, GpuStream stream))                           \
  X(set_async, "cuMemsetD8Async",                                                               \
    (GpuAddress to, unsigned char value, std::size_t bytes, GpuStream stream))                  \
  X(stream_create, "cuStreamCreate", (GpuStream * stream, unsigned flags))                      \
  X(stream_synchronize, "cuStreamSynchronize", (GpuStream stream))                              \
  X(stream_destroy, "cuStreamDestroy_v2", (GpuStream stream))                                   \
  X(stream_write_word, "cuStreamWriteValue32_v2",                                               \
    (GpuStream stream, GpuAddress word, unsigned value, unsigned flags))                        \
  X(stream_wait_word, "cuStreamWaitValue32_v2",                                                 \
    (GpuStream stream, GpuAddress word, unsigned value, unsigned flags))                        \
  X(capture_begin, "cuStreamBeginCapture_v2", (GpuStream stream, int mode))                     \
  X(capture_end, "cuStreamEndCapture", (GpuStream stream, GpuGraph * graph))                    \
  X(graph_instantiate, "cuGraphInstantiateWithFlags",                                           \
    (GpuLaunchable * launchable, GpuGraph graph, unsigned long long flags))                     \
  X(graph_launch, "cuGraphLaunch", (GpuLaunchable launchable, GpuStream stream))                \
  X(graph_destroy, "cuGraphDestroy", (GpuGraph graph))                                          \
  X(launchable_destroy, "cuGraphExecDestroy", (GpuLaunchable launchable))                       \
  X(event_create, "cuEventCreate", (GpuEvent * event, unsigned flags))                          \
  X(event_record, "cuEventRecord", (GpuEvent event, GpuStream stream))                          \
  X(event_synchronize, "cuEventSynchronize", (GpuEvent event))                                  \
  X(event_elapsed, "cuEventElapsedTime", (float* milliseconds, GpuEvent begin, GpuEvent end))   \
  X(event_destroy, "cuEventDestroy_v2", (GpuEvent event))                                       \
  X(module_load, "cuModuleLoadData", (GpuModule * module, const void* image))                   \
  X(module_function, "cuModuleGetFunction",                                                     \
    (GpuFunction * function, GpuModule module, const char* name))                               \
  X(launch, "cuLaunchKernel",                                                                   \
    (GpuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, GpuStream stream,               \
     void** parameters, void** extra))

struct GpuDriver {
#define PERF_GPU_MEMBER(name, symbol, parameters) int(*name) parameters = nullptr;
  PERF_GPU_FUNCTIONS(PERF_GPU_MEMBER)
#undef PERF_GPU_MEMBER

  /// "CUDA_ERROR_INVALID_VALUE (invalid argument)"
  [[nodiscard]] std::string describe(int error) const;
};

/// Loads libcuda.so.1, once. Null, with the reason in `why`: it is not there, or lacks a function.
const GpuDriver* load_gpu_driver(std::string& why);

}  // namespace perf
