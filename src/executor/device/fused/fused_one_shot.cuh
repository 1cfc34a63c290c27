// SPDX-License-Identifier: Apache-2.0
// one_shot's all_reduce of short inputs, written out: every thread stores to all peers, looks at
// all peers' lines at once, and then all sum in the order of ranks, as the schedule does.
#pragma once
#include "executor/device/fused/interpreter.cuh"

namespace coll::fused {

/// Rows of inputs by rank.
struct OneShotShared {
  alignas(16) unsigned char rows[kOneShotBytes];
  // Of the messages that were received from each peer, and sent to it.
  std::uint32_t numbers[2 * kOneShotRanks], slots[2 * kOneShotRanks];
};

/// One block's; there is one.
class OneShot {
 public:
  __device__ OneShot(const FusedArguments& arguments, OneShotShared& shared)
      : a_(arguments),
        shared_(shared),
        links_(reinterpret_cast<const FusedLink*>(image_of(arguments) + a_.links_at)),
        bytes_(a_.count * a_.element_bytes),
        lines_(lines_of(bytes_)) {}

  __device__ bool run() {
    const std::uint32_t peers = a_.ranks - 1, abort = ask_for_abort(a_.abort);
    for (std::uint32_t i = threadIdx.x; i < 2 * peers; i += blockDim.x) {
      const FusedWay& way = i % 2 == 0 ? links_[i / 2].receiving : links_[i / 2].sending;
      const Message message = message_behind(way, *at<const KernelCount>(way.count), 0, 0);
      shared_.numbers[i] = message.number;
      shared_.slots[i] = message.slot;
    }
    copy_by_block(row(a_.rank), nullptr, at<const unsigned char>(a_.input), bytes_);
    __syncthreads();
    if (__syncthreads_or(abort == 0 && await_slots(peers) ? 0 : 1) != 0) return false;
    send_all(peers);
    if (__syncthreads_or(receive_all(peers) ? 0 : 1) != 0) return false;
    for (std::uint32_t peer = 0; peer < peers; ++peer)
      note_read(links_[peer].receiving, received(peer), 0, 1);
    sum();
    return true;
  }

 private:
  [[nodiscard]] __device__ unsigned char* row(std::uint32_t rank) const {
    return shared_.rows + std::uint64_t{rank} * ((lines_ + 1) / 2 * 16);
  }
  [[nodiscard]] __device__ Message received(std::uint32_t peer) const {
    return {shared_.numbers[2 * peer], shared_.slots[2 * peer]};
  }
  [[nodiscard]] __device__ Message sent(std::uint32_t peer) const {
    return {shared_.numbers[2 * peer + 1], shared_.slots[2 * peer + 1]};
  }
  /// The words of all peers are looked at together.
  __device__ bool await_slots(std::uint32_t peers) {
    for (std::uint32_t i = threadIdx.x; i < peers * KernelRing::kShares; i += blockDim.x) {
      const std::uint32_t peer = i / KernelRing::kShares;
      const FusedWay& way = links_[peer].sending;
      if (!await_number(a_.abort, read_word(way, i % KernelRing::kShares),
                        sent(peer).number - way.credits))
        return false;
    }
    return true;
  }
  __device__ void send_all(std::uint32_t peers) {
    for (std::uint32_t peer = 0; peer < peers; ++peer) {
      const FusedWay& way = links_[peer].sending;
      const Message message = sent(peer);
      Line* const lines = lines_of_slot(way, message.slot);
      const std::uint32_t all = lines_sent(way, message, bytes_);
      for (std::uint32_t i = threadIdx.x; i < all; i += blockDim.x) {
        std::uint64_t data = 0;
        if (i < lines_) data = reduce::device::load<std::uint64_t>(row(a_.rank) + i * sizeof data);
        send_line(lines + i, message.number, data);
      }
    }
  }
  /// The lines of all peers are spread over the threads, so that all are looked at together.
  __device__ bool receive_all(std::uint32_t peers) {
    for (std::uint32_t i = threadIdx.x; i < peers * lines_; i += blockDim.x) {
      const std::uint32_t peer = i / lines_, line = i % lines_;
      const FusedWay& way = links_[peer].receiving;
      const Message message = received(peer);
      std::uint64_t data = 0;
      if (!receive_line(a_.abort, lines_of_slot(way, message.slot) + line, message.number, data))
        return false;
      reduce::device::store(row(way.peer) + line * sizeof data, data);
    }
    return true;
  }
  __device__ void sum() {
    for (std::uint32_t rank = 1; rank < a_.ranks; ++rank) {
      const bool last = rank + 1 == a_.ranks;
      // The output's alignment decides which threads take which of its elements.
      if (last) __syncthreads();
      ReduceArguments pass;
      pass.left = row(rank);
      pass.right = row(0);
      pass.into = last ? at<unsigned char>(a_.output) : row(0);
      pass.count = a_.count;
      pass.ranks = a_.ranks;
      combine(a_.op, a_.type, last, pass);
    }
  }

  const FusedArguments& a_;
  OneShotShared& shared_;
  const FusedLink* const links_;
  const std::uint64_t bytes_;
  const std::uint32_t lines_;
};

}  // namespace coll::fused
