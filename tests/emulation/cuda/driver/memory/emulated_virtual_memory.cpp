// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: addresses, physical memory, and what maps one to the other.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <vector>

#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_calls.hpp"
#include "emulation/cuda/driver/emulated_machine.hpp"
#include "emulation/cuda/driver/memory/emulated_memory.hpp"

namespace emucuda {
namespace {

constexpr std::size_t kGranularity = 2 << 20;  // what GPUs have

/// Physical memory: of the program's handle, and of each mapping.
struct Physical {
  int descriptor, device;
  std::size_t bytes;
  bool exportable, own;  // own: counted as used here
  int owners = 1;
};
std::mutex g_virtual_mutex;
auto& g_reserved = *new std::map<CUdeviceptr, std::size_t>;
auto& g_mapped = *new std::map<CUdeviceptr, Physical*>;

Physical* physical_of(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<Physical*>(handle);
}
CUmemGenericAllocationHandle handle_of(Physical* physical) {
  return reinterpret_cast<std::uintptr_t>(physical);
}

void drop(Physical* physical) {
  if (--physical->owners > 0) return;
  close(physical->descriptor);
  if (physical->own) allocations().unuse(physical->device, physical->bytes);
  delete physical;
}

bool is_reserved(CUdeviceptr pointer, std::size_t bytes) {
  auto after = g_reserved.upper_bound(pointer);
  if (after == g_reserved.begin()) return false;
  --after;
  return pointer + bytes <= after->first + after->second;
}

bool are_good(const CUmemAllocationProp* properties) {
  return properties != nullptr && properties->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

/// The mappings that [pointer, pointer + bytes) consists of; none if it does not consist of whole
/// ones.
std::vector<CUdeviceptr> mappings_in(CUdeviceptr pointer, std::size_t bytes) {
  std::vector<CUdeviceptr> found;
  CUdeviceptr at = pointer;
  while (at < pointer + bytes) {
    const auto mapping = allocations().find(at);
    if (!mapping || mapping->kind != Kind::mapped || mapping->begin != at ||
        mapping->end() > pointer + bytes)
      return {};
    found.push_back(at);
    at = mapping->end();
  }
  return found;
}

void* reserve(void* where, std::size_t bytes) {
  return mmap(where, bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (where != nullptr ? MAP_FIXED : 0), -1,
              0);
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (bytes == nullptr || !are_good(properties)) return CUDA_ERROR_INVALID_VALUE;
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (handle == nullptr || bytes == 0 || bytes % kGranularity != 0 || !are_good(properties) ||
      flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const int device = properties->location.id;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!allocations().use(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const int descriptor = new_memory_file(device, bytes);
  if (descriptor < 0) {
    allocations().unuse(device, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const bool exportable =
      properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  *handle = handle_of(new Physical{descriptor, device, bytes, exportable, true});
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (handle == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(g_virtual_mutex);
  drop(physical_of(handle));
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  const std::lock_guard lock(g_virtual_mutex);
  const auto memory = allocations().find(reinterpret_cast<std::uintptr_t>(address));
  if (handle == nullptr || !memory || memory->kind != Kind::mapped) return CUDA_ERROR_INVALID_VALUE;
  Physical* const physical = g_mapped.at(memory->begin);
  ++physical->owners;
  *handle = handle_of(physical);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* pointer, std::size_t bytes, std::size_t alignment,
                             CUdeviceptr, unsigned long long flags) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (pointer == nullptr || bytes == 0 || bytes % kGranularity != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const std::size_t unit = std::max(alignment, kGranularity);
  void* const place = reserve(nullptr, bytes + unit);
  if (place == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  // What lies before and behind stays reserved, which costs nothing.
  *pointer = round_up(reinterpret_cast<std::uintptr_t>(place), unit);
  const std::lock_guard lock(g_virtual_mutex);
  g_reserved[*pointer] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, std::size_t bytes) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  const std::lock_guard lock(g_virtual_mutex);
  const auto reserved = g_reserved.find(pointer);
  if (reserved == g_reserved.end() || reserved->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = g_mapped.lower_bound(pointer);
  if (mapped != g_mapped.end() && mapped->first < pointer + bytes) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(pointer), bytes);
  g_reserved.erase(reserved);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr pointer, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  Physical* const physical = physical_of(handle);
  if (physical == nullptr || bytes == 0 || bytes % kGranularity != 0 ||
      pointer % kGranularity != 0 || offset != 0 || bytes > physical->bytes || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(g_virtual_mutex);
  if (!is_reserved(pointer, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const bool added = allocations().add({.begin = pointer,
                                        .bytes = bytes,
                                        .kind = Kind::mapped,
                                        .device = physical->device,
                                        .exportable = physical->exportable});
  if (!added) return CUDA_ERROR_INVALID_VALUE;
  // Nobody reaches it before cuMemSetAccess.
  if (mmap(reinterpret_cast<void*>(pointer), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
           physical->descriptor, 0) == MAP_FAILED) {
    allocations().take(pointer, Kind::mapped);
    return CUDA_ERROR_MAP_FAILED;
  }
  ++physical->owners;
  g_mapped[pointer] = physical;
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, std::size_t bytes) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  drain_streams();
  const std::lock_guard lock(g_virtual_mutex);
  const auto mappings = mappings_in(pointer, bytes);
  if (mappings.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (const CUdeviceptr mapping : mappings) {
    const auto memory = allocations().take(mapping, Kind::mapped);
    reserve(reinterpret_cast<void*>(mapping), memory->bytes);
    drop(g_mapped.at(mapping));
    g_mapped.erase(mapping);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, std::size_t bytes, const CUmemAccessDesc* access,
                        std::size_t count) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(g_virtual_mutex);
  const auto mappings = mappings_in(pointer, bytes);
  if (mappings.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemLocation location = access[i].location;
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!is_device(location.id)) return CUDA_ERROR_INVALID_DEVICE;
    for (const CUdeviceptr mapping : mappings) {
      const int device = g_mapped.at(mapping)->device;
      if (device != location.id && !machine().peers) return CUDA_ERROR_INVALID_DEVICE;
      allocations().let_reach(mapping, location.id);
    }
  }
  mprotect(reinterpret_cast<void*>(pointer), bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  const Physical* const physical = physical_of(handle);
  if (shareable == nullptr || physical == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !physical->exportable)
    return CUDA_ERROR_INVALID_VALUE;
  const int descriptor = fcntl(physical->descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(shareable) = descriptor;
  return CUDA_SUCCESS;
}

/// The caller's descriptor stays its own.
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        CUmemAllocationHandleType type) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  if (handle == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  const auto file = memory_file(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)));
  if (!file || file->bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  if (file->device < 0) return CUDA_ERROR_INVALID_DEVICE;
  const int own =
      fcntl(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)), F_DUPFD_CLOEXEC, 0);
  if (own < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *handle = handle_of(new Physical{own, file->device, file->bytes, true, false});
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace emucuda
