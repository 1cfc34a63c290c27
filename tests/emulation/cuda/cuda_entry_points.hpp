// SPDX-License-Identifier: Apache-2.0
// Every function that the emulated CUDA driver has, by the name that the library file exports it
// under.
#pragma once
#include "emulation/cuda/cuda_abi.hpp"

/// X(name, parameters). The functions of CUDA 13.0's cuda.h; all give a CUresult.
#define EMUCUDA_ENTRY_POINTS(X)                                                                   \
  X(cuInit, (unsigned flags))                                                                     \
  X(cuDriverGetVersion, (int* version))                                                           \
  X(cuGetErrorName, (CUresult error, const char** name))                                          \
  X(cuGetErrorString, (CUresult error, const char** text))                                        \
  X(cuGetProcAddress_v2, (const char* symbol, void** function, int version, std::uint64_t flags,  \
                          CUdriverProcAddressQueryResult* found))                                 \
  /* devices and contexts */                                                                      \
  X(cuDeviceGet, (CUdevice * device, int ordinal))                                                \
  X(cuDeviceGetCount, (int* count))                                                               \
  X(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice device))            \
  X(cuDeviceGetName, (char* name, int length, CUdevice device))                                   \
  X(cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                         \
  X(cuDeviceGetPCIBusId, (char* id, int length, CUdevice device))                                 \
  X(cuDeviceTotalMem_v2, (std::size_t * bytes, CUdevice device))                                  \
  X(cuDeviceCanAccessPeer, (int* can, CUdevice device, CUdevice peer))                            \
  X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                             \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                              \
  X(cuCtxSetCurrent, (CUcontext context))                                                         \
  X(cuCtxGetCurrent, (CUcontext * context))                                                       \
  X(cuCtxGetDevice, (CUdevice * device))                                                          \
  X(cuCtxPushCurrent_v2, (CUcontext context))                                                     \
  X(cuCtxPopCurrent_v2, (CUcontext * context))                                                    \
  X(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags))                                      \
  X(cuCtxSynchronize, ())                                                                         \
  X(cuCtxGetStreamPriorityRange, (int* least, int* greatest))                                     \
  /* memory */                                                                                    \
  X(cuMemAlloc_v2, (CUdeviceptr * pointer, std::size_t bytes))                                    \
  X(cuMemAllocManaged, (CUdeviceptr * pointer, std::size_t bytes, unsigned flags))                \
  X(cuMemFree_v2, (CUdeviceptr pointer))                                                          \
  X(cuMemGetInfo_v2, (std::size_t * free, std::size_t * total))                                   \
  X(cuMemGetAddressRange_v2, (CUdeviceptr * base, std::size_t * bytes, CUdeviceptr pointer))      \
  X(cuMemHostAlloc, (void** pointer, std::size_t bytes, unsigned flags))                          \
  X(cuMemFreeHost, (void* pointer))                                                               \
  X(cuMemHostRegister_v2, (void* pointer, std::size_t bytes, unsigned flags))                     \
  X(cuMemHostUnregister, (void* pointer))                                                         \
  X(cuMemHostGetDevicePointer_v2, (CUdeviceptr * device, void* host, unsigned flags))             \
  X(cuPointerGetAttribute, (void* value, CUpointer_attribute attribute, CUdeviceptr pointer))     \
  X(cuPointerGetAttributes,                                                                       \
    (unsigned count, const CUpointer_attribute* attributes, void** values, CUdeviceptr pointer))  \
  X(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes))                              \
  X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void* from, std::size_t bytes))                       \
  X(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, std::size_t bytes))                             \
  X(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream))        \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream)) \
  X(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, std::size_t bytes, CUstream stream))       \
  X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream)) \
  X(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream))   \
  X(cuMemsetD32Async, (CUdeviceptr to, unsigned value, std::size_t count, CUstream stream))       \
  /* memory of other processes */                                                                 \
  X(cuIpcGetMemHandle, (CUipcMemHandle * handle, CUdeviceptr pointer))                            \
  X(cuIpcOpenMemHandle_v2, (CUdeviceptr * pointer, CUipcMemHandle handle, unsigned flags))        \
  X(cuIpcCloseMemHandle, (CUdeviceptr pointer))                                                   \
  X(cuIpcGetEventHandle, (CUipcEventHandle * handle, CUevent event))                              \
  X(cuIpcOpenEventHandle, (CUevent * event, CUipcEventHandle handle))                             \
  X(cuMemGetHandleForAddressRange, (void* handle, CUdeviceptr pointer, std::size_t bytes,         \
                                    CUmemRangeHandleType type, unsigned long long flags))         \
  X(cuMemCreate, (CUmemGenericAllocationHandle * handle, std::size_t bytes,                       \
                  const CUmemAllocationProp* properties, unsigned long long flags))               \
  X(cuMemRelease, (CUmemGenericAllocationHandle handle))                                          \
  X(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void* address))          \
  X(cuMemAddressReserve, (CUdeviceptr * pointer, std::size_t bytes, std::size_t alignment,        \
                          CUdeviceptr address, unsigned long long flags))                         \
  X(cuMemAddressFree, (CUdeviceptr pointer, std::size_t bytes))                                   \
  X(cuMemMap, (CUdeviceptr pointer, std::size_t bytes, std::size_t offset,                        \
               CUmemGenericAllocationHandle handle, unsigned long long flags))                    \
  X(cuMemUnmap, (CUdeviceptr pointer, std::size_t bytes))                                         \
  X(cuMemSetAccess,                                                                               \
    (CUdeviceptr pointer, std::size_t bytes, const CUmemAccessDesc* access, std::size_t count))   \
  X(cuMemGetAllocationGranularity, (std::size_t * bytes, const CUmemAllocationProp* properties,   \
                                    CUmemAllocationGranularity_flags option))                     \
  X(cuMemExportToShareableHandle, (void* shareable, CUmemGenericAllocationHandle handle,          \
                                   CUmemAllocationHandleType type, unsigned long long flags))     \
  X(cuMemImportFromShareableHandle,                                                               \
    (CUmemGenericAllocationHandle * handle, void* shareable, CUmemAllocationHandleType type))     \
  /* streams */                                                                                   \
  X(cuStreamCreate, (CUstream * stream, unsigned flags))                                          \
  X(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))                \
  X(cuStreamDestroy_v2, (CUstream stream))                                                        \
  X(cuStreamQuery, (CUstream stream))                                                             \
  X(cuStreamSynchronize, (CUstream stream))                                                       \
  X(cuStreamGetCtx, (CUstream stream, CUcontext * context))                                       \
  X(cuStreamGetPriority, (CUstream stream, int* priority))                                        \
  X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                          \
  X(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void* argument))                       \
  X(cuStreamWaitValue32_v2,                                                                       \
    (CUstream stream, CUdeviceptr address, std::uint32_t value, unsigned flags))                  \
  X(cuStreamWaitValue64_v2,                                                                       \
    (CUstream stream, CUdeviceptr address, std::uint64_t value, unsigned flags))                  \
  X(cuStreamWriteValue32_v2,                                                                      \
    (CUstream stream, CUdeviceptr address, std::uint32_t value, unsigned flags))                  \
  X(cuStreamWriteValue64_v2,                                                                      \
    (CUstream stream, CUdeviceptr address, std::uint64_t value, unsigned flags))                  \
  X(cuStreamBatchMemOp_v2,                                                                        \
    (CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations, unsigned flags))      \
  /* events */                                                                                    \
  X(cuEventCreate, (CUevent * event, unsigned flags))                                             \
  X(cuEventDestroy_v2, (CUevent event))                                                           \
  X(cuEventRecord, (CUevent event, CUstream stream))                                              \
  X(cuEventQuery, (CUevent event))                                                                \
  X(cuEventSynchronize, (CUevent event))                                                          \
  X(cuEventElapsedTime, (float* milliseconds, CUevent begin, CUevent end))                        \
  X(cuEventElapsedTime_v2, (float* milliseconds, CUevent begin, CUevent end))                     \
  /* graphs */                                                                                    \
  X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                         \
  X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                       \
  X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))                       \
  X(cuStreamGetCaptureInfo_v2,                                                                    \
    (CUstream stream, CUstreamCaptureStatus * status, std::uint64_t * id, CUgraph * graph,        \
     const CUgraphNode** nodes, std::size_t* count))                                              \
  X(cuStreamGetCaptureInfo_v3,                                                                    \
    (CUstream stream, CUstreamCaptureStatus * status, std::uint64_t * id, CUgraph * graph,        \
     const CUgraphNode** nodes, const void** edges, std::size_t* count))                          \
  X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode))                              \
  X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))   \
  X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                           \
  X(cuGraphExecDestroy, (CUgraphExec exec))                                                       \
  X(cuGraphDestroy, (CUgraph graph))                                                              \
  /* modules and kernels */                                                                       \
  X(cuModuleLoadData, (CUmodule * module, const void* image))                                     \
  X(cuModuleUnload, (CUmodule module))                                                            \
  X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name))              \
  X(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))         \
  X(cuFuncGetAttribute, (int* value, CUfunction_attribute attribute, CUfunction function))        \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                  \
    (int* blocks, CUfunction function, int block_threads, std::size_t shared))                    \
  X(cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,      \
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,       \
                     CUstream stream, void** parameters, void** extra))                           \
  X(cuLaunchKernelEx,                                                                             \
    (const CUlaunchConfig* launch, CUfunction function, void** parameters, void** extra))

namespace emucuda {

#pragma GCC visibility push(default)
extern "C" {
#define EMUCUDA_DECLARE(name, parameters) CUresult name parameters;
EMUCUDA_ENTRY_POINTS(EMUCUDA_DECLARE)
#undef EMUCUDA_DECLARE
}
#pragma GCC visibility pop

}  // namespace emucuda
