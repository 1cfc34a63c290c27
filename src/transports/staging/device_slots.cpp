// SPDX-License-Identifier: Apache-2.0
// Slots allocated, and told to the connection's devices.
#include "transports/staging/device_slots.hpp"

#include <utility>

#include "base/log.hpp"
#include "sys/memory/memory_segment.hpp"
#include "sys/memory/shared_segments.hpp"

namespace coll {

std::unique_ptr<DeviceSlots> DeviceSlots::make(Lending* lending, CudaContext context,
                                               std::size_t bytes) {
  if (lending == nullptr || !lending->may_lend_of_gpu()) return nullptr;
  const std::size_t whole = round_up(bytes, dma_buf_unit());
  auto memory = CudaPiece::allocate(context, whole + dma_buf_unit());
  if (memory.ok())
    return std::unique_ptr<DeviceSlots>(new DeviceSlots(*lending, *std::move(memory), whole));
  log(LogLevel::info,
      "messages of a GPU leave through memory of the host: " + memory.status().text());
  return nullptr;
}

DeviceSlots::DeviceSlots(Lending& lending, CudaPiece memory, std::size_t bytes)
    : lending_(lending),
      memory_(std::move(memory)),
      address_(round_up(memory_.address(), dma_buf_unit())) {
  held_ = SharedSegments::add_private(begin(), bytes).ok();
  served_ = held_ && lending_.lends(begin(), bytes, Fetch::never);
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
