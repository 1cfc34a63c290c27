// SPDX-License-Identifier: Apache-2.0
// Where kernels find what KernelRing names: the layout of memory that both ends make alike.
#pragma once
#include <cstddef>
#include <cstdint>

#include "transports/kernel_ring.hpp"

namespace coll::kernel_memory {

/// Of one direction, the sender's device holds a sender's part and the receiver's device a
/// receiver's part; each begins at a multiple of this, and is 0 in the beginning.
inline constexpr std::size_t kAlignment = 256;

constexpr std::size_t words_bytes(std::uint32_t credits) {
  return std::size_t{credits} * KernelRing::kShares * KernelRing::kWordBytes;
}
constexpr std::size_t lines_bytes(std::uint32_t credits) {
  return std::size_t{credits} * 2 * KernelRing::kShortBytes;
}
inline constexpr std::size_t kReachesAt = 64;  ///< in a sender's part
/// The words of what was read, the sender's count, and what it may lend.
constexpr std::size_t sender_bytes() {
  static_assert(KernelRing::kShares * sizeof(std::uint32_t) + sizeof(KernelCount) <= kReachesAt);
  static_assert(kReachesAt + KernelRing::kReaches * sizeof(std::uint64_t) <= kAlignment);
  return kAlignment;
}
/// The words of what is ready, the lines, the receiver's count.
constexpr std::size_t receiver_bytes(std::uint32_t credits) {
  const std::size_t bytes = words_bytes(credits) + lines_bytes(credits) + sizeof(KernelCount);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// As the sender's end has it, or the receiver's. Both parts by the addresses that this end's
/// device knows.
inline KernelRing ring_of(bool sends, std::uint64_t sender, std::uint64_t receiver,
                          std::uint32_t credits) {
  KernelRing ring;
  ring.ready = receiver;
  ring.lines = receiver + words_bytes(credits);
  ring.read = sender;
  ring.count = sends ? sender + KernelRing::kShares * sizeof(std::uint32_t)
                     : ring.lines + lines_bytes(credits);
  if (sends) ring.reaches = sender + kReachesAt;
  return ring;
}

}  // namespace coll::kernel_memory
