// SPDX-License-Identifier: Apache-2.0
// The memory that calls need beside their users' buffers.
#include "executor/scratch_pool.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace coll {

ScratchPool::Memory ScratchPool::make(std::size_t bytes, ScratchUse use) const {
  if (use != ScratchUse::program && readable_) {
    if (Memory memory = readable_(bytes)) return memory;
  }
  if (use == ScratchUse::staging) return {};
  if (use == ScratchUse::device) {  // pages are pinned whole
    constexpr std::align_val_t kPage{4096};
    return {static_cast<std::byte*>(::operator new(bytes, kPage)),
            [](std::byte* memory) { ::operator delete(memory, kPage); }};
  }
  return {new std::byte[bytes], [](std::byte* memory) { delete[] memory; }};
}

ScratchPool::Memory ScratchPool::take_idle(std::size_t bytes, ScratchUse use) {
  const auto last = std::find_if(idle_.rbegin(), idle_.rend(), [&](const Idle& idle) {
    return idle.bytes == bytes && idle.use == use;
  });
  if (last == idle_.rend()) return {};
  Memory memory = std::move(last->memory);
  idle_.erase(std::next(last).base());
  idle_bytes_ -= bytes;
  return memory;
}

ScratchPool::Memory ScratchPool::take_idle_of_gpu(std::size_t& bytes) {
  auto best = idle_of_gpu_.end();
  for (auto at = idle_of_gpu_.begin(); at != idle_of_gpu_.end(); ++at) {
    if (at->bytes >= bytes && (best == idle_of_gpu_.end() || at->bytes <= best->bytes)) best = at;
  }
  if (best == idle_of_gpu_.end()) return {};
  Memory memory = std::move(best->memory);
  bytes = best->bytes;
  idle_of_gpu_.erase(best);
  return memory;
}

ScratchPool::Block ScratchPool::take(std::size_t bytes, ScratchUse use, const Prepare& prepare) {
  Memory memory;
  if (is_of_call(use)) {
    // Calls of almost the same length share blocks.
    constexpr std::size_t kGrain = 4096;
    bytes = std::max<std::size_t>(1, (bytes + kGrain - 1) / kGrain) * kGrain;
    idle_.reserve(idle_.size() + taken_ + 1);
    idle_of_gpu_.reserve(idle_of_gpu_.size() + taken_ + 1);
    if (use == ScratchUse::gpu) {
      bytes = std::bit_ceil(bytes);
      memory = take_idle_of_gpu(bytes);
    } else {
      memory = take_idle(bytes, use);
    }
  }
  if (!memory) {
    if (use != ScratchUse::gpu) {
      memory = make(bytes, use);
      if (!memory) return {};
    }
    if (prepare) memory = prepare(std::move(memory), bytes);
    count(use).fetch_add(bytes, std::memory_order_relaxed);
  }
  if (is_of_call(use)) ++taken_;
  return {*this, use, std::move(memory), bytes};
}

void ScratchPool::give_back(Memory memory, std::size_t bytes, ScratchUse use) noexcept {
  if (!is_of_call(use)) {
    memory.reset();
    count(use).fetch_sub(bytes, std::memory_order_relaxed);
    return;
  }
  --taken_;
  if (use == ScratchUse::gpu) {
    idle_of_gpu_.push_back({std::move(memory), bytes, use});
    return;
  }
  idle_.push_back({std::move(memory), bytes, use});
  idle_bytes_ += bytes;
  while (idle_.size() > 1 && (idle_.size() > kMostIdle || idle_bytes_ > kMostIdleBytes)) {
    idle_bytes_ -= idle_.front().bytes;
    count(idle_.front().use).fetch_sub(idle_.front().bytes, std::memory_order_relaxed);
    idle_.erase(idle_.begin());
  }
}

}  // namespace coll
