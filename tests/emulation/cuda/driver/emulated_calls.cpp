// SPDX-License-Identifier: Apache-2.0
// The beginning of the driver: initialization, names of errors, addresses of functions.
#include "emulation/cuda/driver/emulated_calls.hpp"

#include <dlfcn.h>

#include <atomic>
#include <string>

#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_context.hpp"
#include "emulation/cuda/driver/emulated_machine.hpp"

namespace emucuda {
namespace {

std::atomic<bool> g_initialized{false};
thread_local bool t_in_host_function = false;

struct ErrorName {
  CUresult error;
  const char *name, *text;
};
#define EMUCUDA_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorName kErrors[] = {
    EMUCUDA_ERROR(CUDA_SUCCESS, "no error"),
    EMUCUDA_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    EMUCUDA_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    EMUCUDA_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    EMUCUDA_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    EMUCUDA_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    EMUCUDA_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    EMUCUDA_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    EMUCUDA_ERROR(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    EMUCUDA_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "no kernel image is available for execution on the device"),
    EMUCUDA_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
                  "peer access is not supported between these two devices"),
    EMUCUDA_ERROR(CUDA_ERROR_OPERATING_SYSTEM,
                  "OS call failed or operation not supported on this OS"),
    EMUCUDA_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    EMUCUDA_ERROR(CUDA_ERROR_ILLEGAL_STATE,
                  "the operation cannot be performed in the present state"),
    EMUCUDA_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    EMUCUDA_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    EMUCUDA_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    EMUCUDA_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                  "part or all of the requested memory range is already mapped"),
    EMUCUDA_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                  "pointer does not correspond to a registered memory region"),
    EMUCUDA_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    EMUCUDA_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    EMUCUDA_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                  "operation not permitted when stream is capturing"),
    EMUCUDA_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                  "operation failed due to a previous error during capture"),
    EMUCUDA_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE,
                  "operation would result in a merge of separate capture sequences"),
    EMUCUDA_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                  "capture was not ended in the same stream as it began"),
    EMUCUDA_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    EMUCUDA_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                  "dependency created on uncaptured work in another stream"),
    EMUCUDA_ERROR(CUDA_ERROR_CAPTURED_EVENT,
                  "operation not permitted on an event last recorded in a capturing stream"),
    EMUCUDA_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                  "attempt to terminate a thread-local capture sequence from another thread"),
};
#undef EMUCUDA_ERROR

const ErrorName* find(CUresult error) {
  for (const ErrorName& known : kErrors) {
    if (known.error == error) return &known;
  }
  return nullptr;
}

}  // namespace

CUresult refuse(Needs needs) {
  if (t_in_host_function) return CUDA_ERROR_NOT_PERMITTED;
  if (!g_initialized.load(std::memory_order_relaxed)) return CUDA_ERROR_NOT_INITIALIZED;
  return needs == Needs::context && current_context() == nullptr ? CUDA_ERROR_INVALID_CONTEXT
                                                                 : CUDA_SUCCESS;
}

bool is_device(int device) {
  return device >= 0 && device < machine().devices;
}

HostFunctionRuns::HostFunctionRuns() {
  t_in_host_function = true;
}
HostFunctionRuns::~HostFunctionRuns() {
  t_in_host_function = false;
}

extern "C" {

CUresult cuInit(unsigned flags) {
  if (t_in_host_function) return CUDA_ERROR_NOT_PERMITTED;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (machine().devices == 0) return CUDA_ERROR_NO_DEVICE;
  g_initialized.store(true, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  const ErrorName* const known = find(error);
  *name = known != nullptr ? known->name : nullptr;
  return known != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  const ErrorName* const known = find(error);
  *text = known != nullptr ? known->text : nullptr;
  return known != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, std::uint64_t,
                             CUdriverProcAddressQueryResult* found) {
  if (symbol == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Dl_info own;
  if (dladdr(reinterpret_cast<void*>(&cuInit), &own) == 0) return CUDA_ERROR_OPERATING_SYSTEM;
  void* const library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *function = nullptr;
  for (const char* const suffix : {"_v3", "_v2", ""}) {
    // The functions of a third version came with CUDA 12.3.
    if (std::string(suffix) == "_v3" && version < 12030) continue;
    *function = dlsym(library, (std::string(symbol) + suffix).c_str());
    if (*function != nullptr) break;
  }
  dlclose(library);
  const bool there = *function != nullptr;
  if (found != nullptr)
    *found = there ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return there ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // extern "C"
}  // namespace emucuda
