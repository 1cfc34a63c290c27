// SPDX-License-Identifier: Apache-2.0
// Memory of devices and of the host, and what the driver says of pointers.
#include <sys/mman.h>
#include <unistd.h>

#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_calls.hpp"
#include "emulation/cuda/driver/emulated_capture.hpp"
#include "emulation/cuda/driver/emulated_machine.hpp"
#include "emulation/cuda/driver/memory/emulated_memory.hpp"

namespace emucuda {
namespace {

void* pointer_of(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

CUresult allocate(CUdeviceptr* pointer, std::size_t bytes, Kind kind) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (const CUresult refused = refuse_in_capture(nullptr)) return refused;
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (machine().allocating_waits) drain_streams();
  const int device = current_context()->device;
  if (bytes > machine().memory) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::size_t mapping = round_up(bytes, kPage);
  if (!allocations().use(device, mapping)) return CUDA_ERROR_OUT_OF_MEMORY;
  const int descriptor = new_memory_file(device, mapping);
  void* const data = descriptor < 0 ? nullptr : map_memory_file(descriptor, mapping);
  if (data == nullptr) {
    if (descriptor >= 0) close(descriptor);
    allocations().unuse(device, mapping);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *pointer = address_of(data);
  allocations().add({.begin = *pointer,
                     .bytes = bytes,
                     .kind = kind,
                     .device = device,
                     .descriptor = descriptor,
                     .mapping = mapping});
  return CUDA_SUCCESS;
}

/// False: the attribute says nothing of such memory.
bool describe(const Allocation& memory, CUdeviceptr pointer, CUpointer_attribute attribute,
              void* value) {
  const bool legacy = memory.kind == Kind::device;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(value) =
          memory.kind == Kind::mapped ? nullptr : handle_of(&context_of(memory.device));
      return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) = memory.of_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(value) = pointer;
      return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!memory.of_host() && memory.kind != Kind::managed) return false;
      *static_cast<void**>(value) = pointer_of(pointer);
      return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(value) = memory.buffer;
      return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(value) = memory.kind == Kind::managed ? 1 : 0;
      return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = memory.device;
      return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<unsigned*>(value) = legacy ? 1 : 0;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(value) = memory.begin;
      return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(value) = memory.bytes;
      return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<unsigned*>(value) = 1;
      return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *static_cast<unsigned long long*>(value) =
          memory.exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
      return true;
  }
  return false;
}

/// What cuPointerGetAttributes says of what it knows nothing of.
bool clear(CUpointer_attribute attribute, void* value) {
  constexpr int kNoDevice = -2;  // cuda.h, CU_DEVICE_INVALID
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = kNoDevice;
      return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<unsigned*>(value) = 0;
      return true;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *static_cast<unsigned long long*>(value) = 0;
      return true;
  }
  return false;
}

}  // namespace

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr* pointer, std::size_t bytes) {
  return allocate(pointer, bytes, Kind::device);
}

CUresult cuMemAllocManaged(CUdeviceptr* pointer, std::size_t bytes, unsigned flags) {
  return flags == 0 ? CUDA_ERROR_INVALID_VALUE : allocate(pointer, bytes, Kind::managed);
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (const CUresult refused = refuse_in_capture(nullptr)) return refused;
  if (pointer == 0) return CUDA_SUCCESS;
  drain_streams();
  std::optional<Allocation> memory = allocations().take(pointer, Kind::device);
  if (!memory) memory = allocations().take(pointer, Kind::managed);
  if (!memory) return CUDA_ERROR_INVALID_VALUE;
  munmap(pointer_of(pointer), memory->mapping);
  close(memory->descriptor);
  allocations().unuse(memory->device, memory->mapping);
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *total = machine().memory;
  *free = *total - allocations().used(current_context()->device);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr pointer) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  const std::optional<Allocation> memory = allocations().find(pointer);
  if (!memory) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = memory->begin;
  if (bytes != nullptr) *bytes = memory->bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (const CUresult refused = refuse_in_capture(nullptr)) return refused;
  if (pointer == nullptr || bytes == 0 || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  if (machine().allocating_waits) drain_streams();
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  allocations().add({.begin = address_of(data),
                     .bytes = bytes,
                     .kind = Kind::host,
                     .device = current_context()->device,
                     .mapping = bytes});
  *pointer = data;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* pointer) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (const CUresult refused = refuse_in_capture(nullptr)) return refused;
  if (pointer == nullptr) return CUDA_SUCCESS;
  drain_streams();
  const std::optional<Allocation> memory = allocations().take(address_of(pointer), Kind::host);
  if (!memory) return CUDA_ERROR_INVALID_VALUE;
  munmap(pointer, memory->mapping);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* pointer, std::size_t bytes, unsigned) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (const CUresult refused = refuse_in_capture(nullptr)) return refused;
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (machine().allocating_waits) drain_streams();
  const bool added = allocations().add({.begin = address_of(pointer),
                                        .bytes = bytes,
                                        .kind = Kind::registered,
                                        .device = current_context()->device});
  return added ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostUnregister(void* pointer) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (const CUresult refused = refuse_in_capture(nullptr)) return refused;
  drain_streams();
  const bool taken = allocations().take(address_of(pointer), Kind::registered).has_value();
  return taken ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned flags) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  const std::optional<Allocation> memory = allocations().find(address_of(host));
  if (device == nullptr || flags != 0 || !memory || !memory->of_host())
    return CUDA_ERROR_INVALID_VALUE;
  *device = address_of(host);
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  const std::optional<Allocation> memory = allocations().find(pointer);
  if (value == nullptr || !memory || !describe(*memory, pointer, attribute, value))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned count, const CUpointer_attribute* attributes,
                                void** values, CUdeviceptr pointer) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (count == 0 || attributes == nullptr || values == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<Allocation> memory = allocations().find(pointer);
  for (unsigned i = 0; i < count; ++i) {
    if (values[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const bool known = memory && describe(*memory, pointer, attributes[i], values[i]);
    if (!known && !clear(attributes[i], values[i])) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace emucuda
