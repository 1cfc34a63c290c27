// SPDX-License-Identifier: Apache-2.0
// Memory that a device can reach, each piece with one owner.
#pragma once
#include <cstddef>
#include <utility>

#include "sys/cuda/cuda_driver.hpp"
#include "sys/fd.hpp"

namespace coll {

/// Something of a context at an address, which its owner undoes in that context. Its driver is
/// `loaded_cuda_driver()`, which has all that `missing_for_streams()` looks for. A capture
/// of a stream forbids neither to make nor to undo one.
class CudaPiece {
 public:
  CudaPiece() = default;
  CudaPiece(CudaPiece&& other) noexcept
      : undo_(std::exchange(other.undo_, nullptr)),
        context_(other.context_),
        address_(std::exchange(other.address_, 0)),
        host_(other.host_) {}
  CudaPiece& operator=(CudaPiece&& other) noexcept {
    std::swap(undo_, other.undo_);
    std::swap(context_, other.context_);
    std::swap(address_, other.address_);
    std::swap(host_, other.host_);
    return *this;
  }
  CudaPiece(const CudaPiece&) = delete;
  CudaPiece& operator=(const CudaPiece&) = delete;
  /// The driver may wait for all work of the device.
  ~CudaPiece();

  /// New memory of the context's device.
  static Result<CudaPiece> allocate(CudaContext context, std::size_t bytes);
  /// Host memory, fixed in place for all contexts until the owner ends. Nobody frees it before.
  static Result<CudaPiece> pin(CudaContext context, std::byte* begin, std::size_t bytes);
  /// An allocation that another process has exported (cuIpcGetMemHandle).
  static Result<CudaPiece> open(CudaContext context, const CudaIpcHandle& exported);

  /// What the context's device knows it by; 0: there is nothing.
  [[nodiscard]] CudaAddress address() const { return address_; }
  /// Never undoes it: the device may still use it.
  void abandon() { undo_ = nullptr; }

 private:
  using Undo = void (*)(const CudaDriver& driver, const CudaPiece& piece);
  CudaPiece(Undo undo, CudaContext context, CudaAddress address, std::byte* host = nullptr)
      : undo_(undo), context_(context), address_(address), host_(host) {}

  Undo undo_ = nullptr;  ///< null: there is nothing to undo
  CudaContext context_ = nullptr;
  CudaAddress address_ = 0;
  std::byte* host_ = nullptr;
};

/// Where another process finds memory of a device.
struct ExportedMemory {
  CudaIpcHandle allocation{};  ///< for CudaPiece::open
  std::size_t offset = 0;      ///< in the allocation
  std::size_t bytes = 0;       ///< that the allocation has from there on
};
/// Of memory that the context's device has allocated.
Result<ExportedMemory> export_memory(CudaContext context, CudaAddress address);

/// What a dma-buf begins at and ends at is a multiple of this: a page of the host.
std::size_t dma_buf_unit();
/// A descriptor by which other devices of the machine reach memory that the context's device has
/// allocated (a dma-buf).
Result<Fd> export_dma_buf(CudaContext context, CudaAddress begin, std::size_t bytes);

/// How a device of this context knows host memory that was pinned in any context.
Result<CudaAddress> device_address(CudaContext context, const std::byte* pinned);

}  // namespace coll
