// SPDX-License-Identifier: Apache-2.0
// Which messages a block sends and receives: their numbers, slots and words (KernelRing).
#pragma once
#include "executor/device/fused/fused_arguments.hpp"
#include "executor/device/fused/spinning.cuh"
#include "transports/kernel_ring.hpp"

namespace coll::fused {

/// A message by its place in its direction.
struct Message {
  std::uint32_t number = 0, slot = 0;
};

/// The message behind `passed` others of this run; `count`: that at the run's begin.
__device__ inline Message message_behind(const FusedWay& way, const KernelCount& count,
                                         std::uint64_t turn, std::uint32_t of_turn) {
  const std::uint32_t number = static_cast<std::uint32_t>(turn) * way.messages + of_turn;
  const auto turns = static_cast<std::uint32_t>(turn % way.credits);
  const std::uint32_t slots = count.slot + turns * (way.messages % way.credits) + of_turn;
  return {count.messages + number + 1, slots % way.credits};
}

__device__ inline std::uint64_t ready_word(const FusedWay& way, const Message& message,
                                           std::uint32_t share) {
  return way.ready +
         (std::uint64_t{message.slot} * KernelRing::kShares + share) * KernelRing::kWordBytes;
}
__device__ inline std::uint64_t read_word(const FusedWay& way, std::uint32_t share) {
  return way.read + share * sizeof(std::uint32_t);
}

/// For this thread's part of the shares: was the slot's last message read? When all threads of the
/// block say yes, the slot may be written.
__device__ inline bool await_slot(std::uint64_t abort, const FusedWay& way,
                                  const Message& message) {
  for (std::uint32_t share = threadIdx.x; share < KernelRing::kShares; share += blockDim.x) {
    if (!await_number(abort, read_word(way, share), message.number - way.credits)) return false;
  }
  return true;
}
/// Does the message renew all that tells that it has come? What no message has used for 2^32
/// messages would look new, so each slot has one such message long before that.
__device__ inline bool renews(const FusedWay& way, const Message& message) {
  constexpr std::uint32_t kSeldom = std::uint32_t{1} << 30;
  return message.number % kSeldom < way.credits;
}

/// Waits until the share is there.
__device__ inline bool await_ready(std::uint64_t abort, const FusedWay& way, const Message& message,
                                   std::uint32_t share) {
  const auto* const word = at<const std::uint32_t>(ready_word(way, message, share));
  return spin_until(abort, [&] { return load_acquire(word) == message.number; });
}
/// The share is there; `lent`: where its message begins, if that is not in the slot. All threads
/// call it, behind a barrier.
__device__ inline void note_ready(const FusedWay& way, const Message& message, std::uint64_t lent,
                                  std::uint32_t share, std::uint32_t shares) {
  for (std::uint32_t i = threadIdx.x; i < KernelRing::kShares; i += blockDim.x) {
    if (i == share || (i % shares == share && renews(way, message))) {
      const std::uint64_t word = ready_word(way, message, i);
      *at<std::uint64_t>(word + KernelRing::kLentAt) = lent;
      store_release(at<std::uint32_t>(word), message.number);
    }
  }
}

// --- messages that are lent
/// Where the message of a share that is ready begins; 0: in the slot.
__device__ inline std::uint64_t lent_at(const FusedWay& way, const Message& message,
                                        std::uint32_t share) {
  return *at<const std::uint64_t>(ready_word(way, message, share) + KernelRing::kLentAt);
}
/// Behind all that the block read of it: was the share lent until then?
__device__ inline bool still_lent(const FusedWay& way, const Message& message,
                                  std::uint32_t share) {
  return load_after_reads(at<std::uint32_t>(ready_word(way, message, share))) == message.number;
}
/// Withdraws what the block has sent in this run and nobody may have read yet. All threads call it.
__device__ inline void withdraw(const FusedWay& way, const KernelCount& count) {
  constexpr std::uint32_t kFarOff = std::uint32_t{1} << 31;
  for (std::uint32_t slot = 0; slot < way.credits; ++slot) {
    for (std::uint32_t i = threadIdx.x; i < KernelRing::kShares; i += blockDim.x) {
      auto* const word = at<std::uint32_t>(ready_word(way, {0, slot}, i));
      const bool of_this_run = static_cast<std::int32_t>(load_relaxed(word) - count.messages) > 0;
      if (i % gridDim.x == blockIdx.x && of_this_run) store_release(word, count.messages + kFarOff);
    }
  }
}

/// The block has read its share; it speaks for every share that no block has. All threads call it,
/// behind a barrier.
__device__ inline void note_read(const FusedWay& way, const Message& message, std::uint32_t share,
                                 std::uint32_t shares) {
  for (std::uint32_t i = threadIdx.x; i < KernelRing::kShares; i += blockDim.x) {
    if (i % shares == share)
      store_after_reads(at<std::uint32_t>(read_word(way, i)), message.number);
  }
}

/// So many passes has a lane in this run.
__device__ inline std::uint64_t turns_of(const FusedArguments& a, const FusedLane& lane) {
  if (lane.first_pass >= a.passes) return 0;
  return (a.passes - lane.first_pass + a.copies - 1) / a.copies;
}
/// What the next run of any program finds.
__device__ inline void count_messages(const FusedWay& way, std::uint64_t turns) {
  auto* const count = at<KernelCount>(way.count);
  const Message next = message_behind(way, *count, turns, 0);
  *count = {next.number - 1, next.slot};
}

}  // namespace coll::fused
