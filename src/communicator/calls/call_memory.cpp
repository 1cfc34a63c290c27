// SPDX-License-Identifier: Apache-2.0
// Memory that calls need beside their buffers.
#include "communicator/calls/call_memory.hpp"

#include <algorithm>
#include <utility>

#include "sys/memory/shared_arena.hpp"

namespace coll {

SharedMemory shared_memory(std::size_t bytes) {
  const Result<SharedArena*> arena = SharedArena::of_this_process();
  if (!arena.ok()) return {};
  const Result<std::byte*> block = (*arena)->allocate(bytes);
  if (!block.ok()) return {};
  return {*block, [arena = *arena](std::byte* memory) { static_cast<void>(arena->free(memory)); }};
}

CallMemory::Block CallMemory::take(std::size_t bytes) {
  // Calls of almost the same length share blocks.
  constexpr std::size_t kGrain = 4096;
  bytes = std::max<std::size_t>(1, (bytes + kGrain - 1) / kGrain) * kGrain;
  idle_.reserve(idle_.size() + taken_ + 1);
  const auto last = std::find_if(idle_.rbegin(), idle_.rend(),
                                 [&](const Idle& idle) { return idle.bytes == bytes; });
  SharedMemory memory;
  if (last != idle_.rend()) {
    memory = std::move(last->memory);
    idle_.erase(std::next(last).base());
    idle_bytes_ -= bytes;
  } else {
    if (shared_) memory = shared_memory(bytes);
    if (!memory) {
      memory = {new std::byte[bytes], [](std::byte* of) { delete[] of; }};
    }
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  ++taken_;
  return {*this, std::move(memory), bytes};
}

void CallMemory::give_back(SharedMemory memory, std::size_t bytes) noexcept {
  --taken_;
  idle_.push_back({std::move(memory), bytes});
  idle_bytes_ += bytes;
  while (idle_.size() > 1 && (idle_.size() > kMostIdle || idle_bytes_ > kMostIdleBytes)) {
    idle_bytes_ -= idle_.front().bytes;
    bytes_.fetch_sub(idle_.front().bytes, std::memory_order_relaxed);
    idle_.erase(idle_.begin());
  }
}

}  // namespace coll
