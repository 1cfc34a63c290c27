// SPDX-License-Identifier: Apache-2.0
// Slots in memory of a GPU that the devices of a connection read, past the host.
#pragma once
#include <cstddef>
#include <memory>

#include "sys/cuda/device_memory.hpp"
#include "transports/transport.hpp"

namespace coll {

/// Memory of a GPU that messages are lent from (GPUDirect RDMA). The processor never touches it.
class DeviceSlots {
 public:
  /// For messages that `lending`, which outlives it, sends. Null where none of its devices is
  /// beside the GPU.
  static std::unique_ptr<DeviceSlots> make(Lending* lending, CudaContext context,
                                           std::size_t bytes);
  DeviceSlots(const DeviceSlots&) = delete;
  DeviceSlots& operator=(const DeviceSlots&) = delete;
  ~DeviceSlots();

  /// Do the devices reach it? (To free it may wait for streams, so that is left for later.)
  [[nodiscard]] bool served() const { return served_; }
  [[nodiscard]] CudaAddress address() const { return address_; }
  /// The same as a pointer, which nobody may follow.
  [[nodiscard]] std::byte* begin() const { return reinterpret_cast<std::byte*>(address_); }
  /// Keeps the memory for good: the GPU may still use it.
  void abandon();

 private:
  DeviceSlots(Lending& lending, CudaPiece memory, std::size_t bytes);

  Lending& lending_;
  CudaPiece memory_;
  const CudaAddress address_;
  bool held_ = false, served_ = false;
};

}  // namespace coll
