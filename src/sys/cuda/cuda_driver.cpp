// SPDX-License-Identifier: Apache-2.0
// Finds the driver among the libraries of this process.
#include "sys/cuda/cuda_driver.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <string_view>
#include <utility>

#include "base/made_once.hpp"

namespace coll {
namespace {

/// Calls visit(name in the library, pointer to the table's entry) for each function that copies
/// need.
template <class Table, class Visit>
void for_each_copying(Table& table, Visit visit) {
  visit("cuPointerGetAttributes", table.pointer_attributes);
  visit("cuGetErrorName", table.error_name);
  visit("cuGetErrorString", table.error_string);
  visit("cuDeviceGet", table.device_get);
  visit("cuDevicePrimaryCtxRetain", table.primary_context_retain);
  visit("cuCtxPushCurrent_v2", table.context_push);
  visit("cuCtxPopCurrent_v2", table.context_pop);
  visit("cuStreamCreate", table.stream_create);
  visit("cuStreamSynchronize", table.stream_synchronize);
  visit("cuMemcpyAsync", table.copy_async);
  visit("cuMemcpy", table.copy);
  visit("cuMemHostRegister_v2", table.host_register);
  visit("cuMemHostUnregister", table.host_unregister);
}

/// The same for those that only work on streams needs.
template <class Table, class Visit>
void for_each_streaming(Table& table, Visit visit) {
  visit("cuDeviceGetAttribute", table.device_attribute);
  visit("cuDeviceGetUuid_v2", table.device_uuid);
  visit("cuDeviceCanAccessPeer", table.can_access_peer);
  visit("cuCtxGetCurrent", table.context_current);
  visit("cuCtxGetDevice", table.context_device);
  visit("cuCtxEnablePeerAccess", table.enable_peer);
  visit("cuMemAlloc_v2", table.memory_allocate);
  visit("cuMemFree_v2", table.memory_free);
  visit("cuMemGetAddressRange_v2", table.address_range);
  visit("cuMemHostAlloc", table.host_allocate);
  visit("cuMemFreeHost", table.host_free);
  visit("cuMemHostGetDevicePointer_v2", table.host_address);
  visit("cuIpcGetMemHandle", table.ipc_handle);
  visit("cuIpcOpenMemHandle_v2", table.ipc_open);
  visit("cuIpcCloseMemHandle", table.ipc_close);
  visit("cuStreamGetCtx", table.stream_context);
  visit("cuStreamCreateWithPriority", table.stream_create_with_priority);
  visit("cuCtxGetStreamPriorityRange", table.stream_priorities);
  visit("cuStreamDestroy_v2", table.stream_destroy);
  visit("cuStreamQuery", table.stream_query);
  visit("cuStreamWaitEvent", table.stream_wait_event);
  visit("cuStreamWaitValue32_v2", table.stream_wait_word);
  visit("cuStreamWriteValue32_v2", table.stream_write_word);
  visit("cuStreamIsCapturing", table.stream_is_capturing);
  visit("cuThreadExchangeStreamCaptureMode", table.exchange_capture_mode);
  visit("cuLaunchHostFunc", table.launch_host);
  visit("cuEventCreate", table.event_create);
  visit("cuEventDestroy_v2", table.event_destroy);
  visit("cuEventRecord", table.event_record);
  visit("cuEventSynchronize", table.event_synchronize);
  visit("cuEventQuery", table.event_query);
  visit("cuEventElapsedTime", table.event_elapsed);
  visit("cuModuleLoadData", table.module_load);
  visit("cuModuleGetFunction", table.module_function);
  visit("cuLaunchKernel", table.launch);
}

template <class ForEach>
std::string first_missing(ForEach for_each) {
  std::string first;
  for_each([&first](const char* name, const auto& function) {
    if (function == nullptr && first.empty()) first = name;
  });
  return first;
}

/// How many libraries this process has ever loaded. It takes 6 ns and a lock of the loader's.
std::uint64_t loads() {
  std::uint64_t count = 0;
  const auto first = [](dl_phdr_info* info, std::size_t, void* into) {
    *static_cast<std::uint64_t*>(into) = info->dlpi_adds;
    return 1;  // the count is the same for every library
  };
  dl_iterate_phdr(first, &count);
  return count;
}

/// Whether this process has a library of the driver's name. To ask the loader for one that it has
/// not takes 16 us, and 120 us the first time, since it looks in all its folders.
bool has_driver() {
  const auto compare = [](dl_phdr_info* info, std::size_t, void*) {
    const std::string_view path = info->dlpi_name;
    return path.substr(path.rfind('/') + 1).starts_with("libcuda.so") ? 1 : 0;
  };
  return dl_iterate_phdr(compare, nullptr) != 0;
}

const CudaDriver* find_driver() {
  static std::atomic<std::uint64_t> looked{0};  // what loads() was at the last look
  const std::uint64_t now = loads();
  if (looked.load(std::memory_order_acquire) == now)
    return g_cuda_driver.load(std::memory_order_acquire);
  void* library = nullptr;  // kept, and with it the driver
  if (has_driver()) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library != nullptr) {
    const CudaDriver& driver = made_once([library] {
      CudaDriver table;
      const auto find = [library]<class Function>(const char* name, Function*& function) {
        function = reinterpret_cast<Function*>(dlsym(library, name));
      };
      for_each_copying(table, find);
      for_each_streaming(table, find);
      find("cuMemGetHandleForAddressRange", table.range_handle);
      return table;
    });
    if (driver.pointer_attributes != nullptr)
      g_cuda_driver.store(&driver, std::memory_order_release);
  }
  looked.store(now, std::memory_order_release);
  return g_cuda_driver.load(std::memory_order_acquire);
}

}  // namespace

std::string CudaDriver::missing() const {
  return first_missing([this](auto visit) { for_each_copying(*this, visit); });
}

std::string CudaDriver::missing_for_streams() const {
  const std::string first = missing();
  if (!first.empty()) return first;
  return first_missing([this](auto visit) { for_each_streaming(*this, visit); });
}

std::string CudaDriver::describe(int error) const {
  const char *name = nullptr, *text = nullptr;
  if (error_name == nullptr || error_name(error, &name) != 0 || name == nullptr)
    return "CUDA error " + std::to_string(error);
  if (error_string == nullptr || error_string(error, &text) != 0 || text == nullptr) return name;
  return std::string(name) + " (" + text + ")";
}

Status CudaDriver::failed_to(const std::string& what, int error, std::string hint) const {
  constexpr int kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
  return failed(error == kOutOfMemory ? Code::out_of_resources : Code::system,
                what + ": " + describe(error), std::move(hint));
}

MemoryPlace place_of(const CudaDriver& driver, const void* address) {
  constexpr int kMemoryType = 2, kIsManaged = 8, kDeviceOrdinal = 9;  // CUpointer_attribute
  constexpr unsigned kDevice = 2;                                     // CUmemorytype
  const int attributes[] = {kMemoryType, kIsManaged, kDeviceOrdinal};
  unsigned type = 0, managed = 0;
  int ordinal = -1;
  void* values[] = {&type, &managed, &ordinal};
  // For a pointer that it does not know, the driver gives zeros. Before cuInit it fails.
  if (driver.pointer_attributes(3, attributes, values, reinterpret_cast<std::uintptr_t>(address)))
    return {};
  if (type != kDevice || managed != 0) return {};
  return {.kind = MemoryKind::device, .device = ordinal};
}

unsigned long long allocation_of(const CudaDriver& driver, CudaAddress address) {
  constexpr int kBufferId = 7;  // CU_POINTER_ATTRIBUTE_BUFFER_ID
  unsigned long long id = 0;
  void* value = &id;
  return driver.pointer_attributes(1, &kBufferId, &value, address) == 0 ? id : 0;
}

const CudaDriver* loaded_cuda_driver() {
  const CudaDriver* const driver = found_cuda_driver();
  return driver != nullptr ? driver : find_driver();
}

}  // namespace coll
