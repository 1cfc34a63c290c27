// SPDX-License-Identifier: Apache-2.0
// Memory of the host that devices read and write by themselves.
#pragma once
#include <cstddef>
#include <utility>

#include "base/status.hpp"
#include "sys/cuda/cuda_driver.hpp"

namespace coll {

/// Pinned memory, which all contexts of the process reach. To make it or to free it may wait until
/// every stream of the process has ended its work. So a thread that streams wait for must do
/// neither.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(PinnedBlock&& other) noexcept { *this = std::move(other); }
  PinnedBlock& operator=(PinnedBlock&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~PinnedBlock();

  /// A capture of a stream forbids neither this nor the end.
  static Result<PinnedBlock> allocate(const CudaDriver& driver, CudaContext context,
                                      std::size_t bytes);

  [[nodiscard]] std::byte* data() const { return data_; }
  /// Where devices find it.
  [[nodiscard]] CudaAddress address() const { return address_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Never frees it: devices may still use it.
  void abandon() { data_ = nullptr; }

 private:
  const CudaDriver* driver_ = nullptr;
  CudaContext context_ = nullptr;
  std::byte* data_ = nullptr;
  CudaAddress address_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace coll
