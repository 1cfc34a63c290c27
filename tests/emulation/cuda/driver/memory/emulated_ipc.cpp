// SPDX-License-Identifier: Apache-2.0
// Memory and events of other processes, by handles that any channel can carry.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_calls.hpp"
#include "emulation/cuda/driver/emulated_event.hpp"
#include "emulation/cuda/driver/emulated_machine.hpp"
#include "emulation/cuda/driver/memory/emulated_memory.hpp"

namespace emucuda {
namespace {

/// What a handle's 64 bytes say.
struct Ticket {
  std::uint64_t magic;
  std::int32_t process, descriptor;
  std::uint64_t number, bytes;
};
constexpr std::size_t kHostPage = 4096;
constexpr std::uint64_t kMemory = 0x6d656d6f72792121, kEvent = 0x6576656e74212121;

/// The descriptor that a ticket of another process names; otherwise an error.
CUresult open_ticket(const Ticket& ticket, std::uint64_t magic, int* descriptor) {
  if (ticket.magic != magic) return CUDA_ERROR_INVALID_VALUE;
  if (ticket.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;  // as the real driver
  const std::string path =
      "/proc/" + std::to_string(ticket.process) + "/fd/" + std::to_string(ticket.descriptor);
  *descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (*descriptor < 0) return CUDA_ERROR_INVALID_HANDLE;
  const auto file = memory_file(*descriptor);
  if (file && file->number == ticket.number && file->device >= 0) return CUDA_SUCCESS;
  close(*descriptor);  // of another file by now, or of a device that this process does not see
  return CUDA_ERROR_INVALID_HANDLE;
}

struct Opened {
  CUdeviceptr pointer;
  int count;
};
std::mutex g_ipc_mutex;
auto& g_opened =
    *new std::map<std::pair<std::int32_t, std::uint64_t>, Opened>;  // by process and file

template <class Handle>
Ticket ticket_in(const Handle& handle) {
  Ticket ticket;
  std::memcpy(&ticket, handle.reserved, sizeof ticket);
  return ticket;
}

template <class Handle>
CUresult put(Handle* handle, std::uint64_t magic, int descriptor, std::uint64_t bytes) {
  const auto file = memory_file(descriptor);
  if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
  const Ticket ticket{magic, getpid(), descriptor, file->number, bytes};
  std::memset(handle->reserved, 0, sizeof handle->reserved);
  std::memcpy(handle->reserved, &ticket, sizeof ticket);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

/// The handle is of the whole allocation, wherever in it the pointer points.
CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  const auto memory = allocations().find(pointer);
  if (handle == nullptr || !memory || memory->kind != Kind::device) return CUDA_ERROR_INVALID_VALUE;
  return put(handle, kMemory, memory->descriptor, memory->bytes);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned flags) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (pointer == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (!machine().ipc) return CUDA_ERROR_INVALID_HANDLE;
  if (machine().allocating_waits) drain_streams();
  const Ticket ticket = ticket_in(handle);
  const std::lock_guard lock(g_ipc_mutex);
  const auto known = g_opened.find({ticket.process, ticket.number});
  if (known != g_opened.end()) {
    ++known->second.count;
    *pointer = known->second.pointer;
    return CUDA_SUCCESS;
  }
  int descriptor = -1;
  if (const CUresult failed = open_ticket(ticket, kMemory, &descriptor)) return failed;
  const auto file = *memory_file(descriptor);
  void* const data = map_memory_file(descriptor, file.bytes);
  close(descriptor);
  if (data == nullptr) return CUDA_ERROR_MAP_FAILED;
  *pointer = reinterpret_cast<std::uintptr_t>(data);
  Context& context = *current_context();
  if (file.device != context.device) {
    const std::lock_guard peers(context.mutex);
    context.peers.insert(file.device);
  }
  allocations().add({.begin = *pointer,
                     .bytes = ticket.bytes,
                     .kind = Kind::imported,
                     .device = file.device,
                     .mapping = file.bytes});
  g_opened[{ticket.process, ticket.number}] = {*pointer, 1};
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  const std::lock_guard lock(g_ipc_mutex);
  for (auto opened = g_opened.begin(); opened != g_opened.end(); ++opened) {
    if (opened->second.pointer != pointer) continue;
    if (--opened->second.count > 0) return CUDA_SUCCESS;
    drain_streams();
    const auto memory = allocations().take(pointer, Kind::imported);
    munmap(reinterpret_cast<void*>(pointer), memory->mapping);
    g_opened.erase(opened);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

/// A descriptor of the allocation's file, for who reaches the memory by the same addresses.
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr pointer, std::size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (!machine().dma_bufs) return CUDA_ERROR_NOT_SUPPORTED;
  const auto memory = allocations().find(pointer);
  if (handle == nullptr || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0 || !memory ||
      memory->kind != Kind::device || pointer % kHostPage != 0 || bytes % kHostPage != 0 ||
      bytes == 0 || bytes > memory->begin + memory->mapping - pointer)
    return CUDA_ERROR_INVALID_VALUE;
  const int descriptor = fcntl(memory->descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(handle) = descriptor;
  return CUDA_SUCCESS;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (handle == nullptr || event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& page = reinterpret_cast<Event*>(event)->page;
  if (!page) return CUDA_ERROR_INVALID_HANDLE;
  return put(handle, kEvent, page->descriptor(), 0);
}

CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int descriptor = -1;
  if (const CUresult failed = open_ticket(ticket_in(handle), kEvent, &descriptor)) return failed;
  Kept<EventPage> page = EventPage::map(descriptor);
  if (!page) return CUDA_ERROR_MAP_FAILED;
  auto* const opened = new Event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  opened->page = std::move(page);
  *event = reinterpret_cast<CUevent>(opened);
  return CUDA_SUCCESS;
}

}  // extern "C"
}  // namespace emucuda
