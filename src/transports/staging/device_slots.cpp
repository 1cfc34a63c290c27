// SPDX-License-Identifier: Apache-2.0
// Slots allocated, and told to the connection's devices.
#include "transports/staging/device_slots.hpp"

#include <utility>

#include "base/log.hpp"
#include "sys/memory/shared_segments.hpp"

namespace coll {
namespace {

/// Up to a begin that a dma-buf may have.
CudaAddress aligned(CudaAddress address) {
  return (address + dma_buf_unit() - 1) / dma_buf_unit() * dma_buf_unit();
}

}  // namespace

std::unique_ptr<DeviceSlots> DeviceSlots::make(Lending* lending, CudaContext context,
                                               std::size_t bytes) {
  if (lending == nullptr || !lending->may_serve_gpu()) return nullptr;
  const std::size_t whole = aligned(bytes);
  auto memory = CudaPiece::allocate(context, whole + dma_buf_unit());
  if (memory.ok())
    return std::unique_ptr<DeviceSlots>(new DeviceSlots(*lending, *std::move(memory), whole));
  log(LogLevel::info,
      "messages of a GPU leave through memory of the host: " + memory.status().text());
  return nullptr;
}

DeviceSlots::DeviceSlots(Lending& lending, CudaPiece memory, std::size_t bytes)
    : lending_(lending), memory_(std::move(memory)), address_(aligned(memory_.address())) {
  held_ = SharedSegments::add_private(begin(), bytes).ok();
  served_ = held_ && lending_.serves_gpu(begin(), bytes);
}

/// Devices of the network forget the memory before it is freed.
DeviceSlots::~DeviceSlots() {
  if (!held_) return;
  static_cast<void>(SharedSegments::remove(begin()));
  lending_.forget_ended();
}

void DeviceSlots::abandon() {
  memory_.abandon();
  held_ = false;
}

}  // namespace coll
