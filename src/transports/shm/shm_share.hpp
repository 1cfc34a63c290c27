// SPDX-License-Identifier: Apache-2.0
// A lent message that both sides copy: the receiver from its front, and its sender, while it waits,
// from its back. One core copies slower than memory could take it.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "transports/shm/shm_line.hpp"

namespace coll {

/// Of one direction, in the segment. Zeroed memory: nothing is shared.
struct alignas(kLinePair) ShmShare {
  /// ShmParts: of which message either side has claimed how much. Both write it.
  std::atomic<std::uint64_t> claims;
  std::atomic<std::uint64_t> into;  ///< where the receiver wants the message, in its process
  /// ShmParts, written by the sender: `back` is what it has copied of its claims, `front` what it
  /// could not copy.
  alignas(kLinePair) std::atomic<std::uint64_t> copied;
  std::atomic<std::uint32_t> waits;  ///< the sender does, for messages before this sequence
};

/// Of a message, in units of kShareUnit from either end.
struct ShmParts {
  std::uint16_t message = 0;  ///< the low bits of its sequence
  std::uint32_t front = 0, back = 0;

  static constexpr int kBits = 24;
  static constexpr std::uint32_t kAll = (1U << kBits) - 1;  ///< more than any message has
  [[nodiscard]] std::uint64_t word() const {
    return std::uint64_t{message} << 2 * kBits | std::uint64_t{front} << kBits | back;
  }
  static ShmParts of(std::uint64_t word) {
    constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;
    return {static_cast<std::uint16_t>(word >> 2 * kBits),
            static_cast<std::uint32_t>(word >> kBits & kMask),
            static_cast<std::uint32_t>(word & kMask)};
  }
};

inline constexpr std::size_t kShareUnit = 4096;
/// Shorter pieces cost more system calls than they save.
inline constexpr std::uint32_t kLeastShare = (64 << 10) / kShareUnit;
/// From this length on, both sides copy what is lent.
inline constexpr std::size_t kSharedBytes = 2 * kLeastShare * kShareUnit;

/// A piece of a message, claimed by one side.
struct ShmPiece {
  std::size_t begin = 0, bytes = 0;
  std::uint32_t units = 0;
};

constexpr std::uint32_t share_units(std::size_t bytes) {
  return static_cast<std::uint32_t>((bytes + kShareUnit - 1) / kShareUnit);
}

constexpr ShmPiece piece_of(std::uint32_t first, std::uint32_t units, std::size_t bytes) {
  const std::size_t begin = first * kShareUnit;
  return {begin, std::min(units * kShareUnit, bytes - begin), units};
}

/// What the sender has said of this message. What it said of an earlier one does not count.
inline ShmParts copied_of(const ShmShare& share, std::uint16_t message) {
  const ShmParts said = ShmParts::of(share.copied.load(std::memory_order_acquire));
  return said.message == message ? said : ShmParts{message, 0, 0};
}

/// Claims half of what is left of the message, at the front or at the back: few claims, and both
/// sides are done at nearly the same time. Nothing if all is claimed, or another message is meant.
inline std::optional<ShmPiece> claim_piece(ShmShare& share, std::uint16_t message,
                                           std::size_t bytes, bool at_front) {
  const std::uint32_t units = share_units(bytes);
  std::uint64_t word = share.claims.load(std::memory_order_acquire);
  for (;;) {
    ShmParts parts = ShmParts::of(word);
    if (parts.message != message || parts.front + parts.back >= units) return std::nullopt;
    const std::uint32_t left = units - parts.front - parts.back;
    const std::uint32_t units_taken = left < 2 * kLeastShare ? left : left / 2;
    const std::uint32_t first = at_front ? parts.front : units - parts.back - units_taken;
    (at_front ? parts.front : parts.back) += units_taken;
    if (!share.claims.compare_exchange_weak(word, parts.word(), std::memory_order_acq_rel,
                                            std::memory_order_acquire))
      continue;
    return piece_of(first, units_taken, bytes);
  }
}

}  // namespace coll
