// SPDX-License-Identifier: Apache-2.0
// The memory that received messages lie in.
#include "transports/tcp/tcp_slots.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace coll {

TcpSlots::~TcpSlots() {
  if (memory_ != nullptr) munmap(memory_, stride_ * credits_);
}

Status TcpSlots::allocate(std::uint32_t credits, std::size_t slot_bytes) {
  const std::size_t stride = kHeaderBytes + slot_bytes;
  void* memory = mmap(nullptr, stride * credits, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return system_failure("reserving " + std::to_string(credits) + " slots of " +
                              std::to_string(slot_bytes) + " bytes",
                          errno, "lower COLL_CREDITS or COLL_SLICE_BYTES");
  }
  memory_ = static_cast<std::byte*>(memory);
  stride_ = stride;
  credits_ = credits;
  return {};
}

}  // namespace coll
