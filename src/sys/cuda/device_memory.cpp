// SPDX-License-Identifier: Apache-2.0
// Allocates, pins and opens memory in a context, and undoes it there.
#include "sys/cuda/device_memory.hpp"

#include <unistd.h>

#include <string>

#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"

namespace coll {
namespace {

/// Calls `function(driver)` in the context; its error is a failure.
template <class Function>
Status in_context(CudaContext context, const std::string& what, Function function) {
  const CudaDriver& driver = *loaded_cuda_driver();
  const CurrentContext current(driver, context);
  const BesideCaptures beside(driver);
  const int error = current.error() != 0 ? current.error() : function(driver);
  return error == 0 ? Status() : driver.failed_to(what, error);
}

}  // namespace

CudaPiece::~CudaPiece() {
  if (undo_ == nullptr) return;
  const CudaDriver& driver = *loaded_cuda_driver();
  const CurrentContext current(driver, context_);
  // At the end of the process the driver may be gone already, and all this with it.
  if (current.error() != 0) return;
  const BesideCaptures beside(driver);
  undo_(driver, *this);
}

Result<CudaPiece> CudaPiece::allocate(CudaContext context, std::size_t bytes) {
  CudaAddress address = 0;
  COLL_TRY(in_context(
      context, "allocating " + std::to_string(bytes) + " bytes of a GPU",
      [&](const CudaDriver& driver) { return driver.memory_allocate(&address, bytes); }));
  const auto undo = [](const CudaDriver& driver, const CudaPiece& piece) {
    driver.memory_free(piece.address_);
  };
  return CudaPiece(undo, context, address);
}

Result<CudaPiece> CudaPiece::pin(CudaContext context, std::byte* begin, std::size_t bytes) {
  constexpr unsigned kPortable = 1, kMapped = 2;  // CU_MEMHOSTREGISTER_…: for all contexts, devices
  COLL_TRY(in_context(context, "pinning " + std::to_string(bytes) + " bytes for a GPU",
                      [&](const CudaDriver& driver) {
                        return driver.host_register(begin, bytes, kPortable | kMapped);
                      }));
  const auto undo = [](const CudaDriver& driver, const CudaPiece& piece) {
    driver.host_unregister(piece.host_);
  };
  CudaPiece pinned(undo, context, 0, begin);
  COLL_ASSIGN(pinned.address_, device_address(context, begin));
  return pinned;
}

Result<CudaPiece> CudaPiece::open(CudaContext context, const CudaIpcHandle& exported) {
  constexpr unsigned kEnablePeerAccess = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
  CudaAddress address = 0;
  COLL_TRY(
      in_context(context, "opening GPU memory of another process", [&](const CudaDriver& driver) {
        return driver.ipc_open(&address, exported, kEnablePeerAccess);
      }));
  const auto undo = [](const CudaDriver& driver, const CudaPiece& piece) {
    driver.ipc_close(piece.address_);
  };
  return CudaPiece(undo, context, address);
}

Result<ExportedMemory> export_memory(CudaContext context, CudaAddress address) {
  ExportedMemory made;
  COLL_TRY(in_context(context, "exporting memory of a GPU", [&](const CudaDriver& driver) {
    CudaAddress base = 0;
    std::size_t whole = 0;
    if (const int error = driver.address_range(&base, &whole, address)) return error;
    made.offset = address - base;
    made.bytes = whole - made.offset;
    return driver.ipc_handle(&made.allocation, base);
  }));
  return made;
}

std::size_t dma_buf_unit() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

Result<Fd> export_dma_buf(CudaContext context, CudaAddress begin, std::size_t bytes) {
  constexpr int kDmaBufSupported = 124;  // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
  constexpr int kDmaBufDescriptor = 1;   // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
  constexpr int kNotSupported = 801;     // CUDA_ERROR_NOT_SUPPORTED
  int descriptor = -1;
  COLL_TRY(in_context(context, "a dma-buf of memory of a GPU", [&](const CudaDriver& driver) {
    int device = 0, supported = 0;
    if (const int error = driver.context_device(&device)) return error;
    if (const int error = driver.device_attribute(&supported, kDmaBufSupported, device))
      return error;
    if (supported == 0 || driver.range_handle == nullptr) return kNotSupported;
    return driver.range_handle(&descriptor, begin, bytes, kDmaBufDescriptor, 0);
  }));
  return Fd(descriptor);
}

Result<CudaAddress> device_address(CudaContext context, const std::byte* pinned) {
  CudaAddress address = 0;
  COLL_TRY(
      in_context(context, "the address of pinned memory for a GPU", [&](const CudaDriver& driver) {
        return driver.host_address(&address, const_cast<std::byte*>(pinned), 0);
      }));
  return address;
}

}  // namespace coll
