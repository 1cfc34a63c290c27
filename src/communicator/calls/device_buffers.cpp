// SPDX-License-Identifier: Apache-2.0
// Copies by the CUDA driver around a call on the host.
#include "communicator/calls/device_buffers.hpp"

#include <algorithm>
#include <utility>

#include "sys/cuda/device_copies.hpp"
#include "sys/memory/memory_places.hpp"

namespace coll {
namespace {

/// The GPU on which a buffer lies; -1: none.
int device_of(const Buffer& buffer) {
  if (buffer.bytes == 0) return -1;
  const MemoryPlace place = place_of_memory(reinterpret_cast<const void*>(buffer.begin));
  return place.kind == MemoryKind::device ? place.device : -1;
}

/// The address that gives `begin` the place of `moved_begin`.
template <class Pointer>
Pointer moved(Pointer pointer, std::uintptr_t begin, const std::byte* moved_begin) {
  const auto offset = reinterpret_cast<std::uintptr_t>(pointer) - begin;
  return reinterpret_cast<Pointer>(reinterpret_cast<std::uintptr_t>(moved_begin) + offset);
}

}  // namespace

ScratchPool::Block take_pinned(ScratchPool& pool, std::size_t bytes, int device) {
  return pool.take(
      bytes, ScratchUse::device, [device](ScratchPool::Memory memory, std::size_t all) {
        if (!pin_memory(memory.get(), all, device)) return memory;
        auto free = memory.get_deleter();
        std::byte* const begin = memory.release();
        return ScratchPool::Memory(begin, [free = std::move(free), device](std::byte* pinned) {
          unpin_memory(pinned, device);
          free(pinned);
        });
      });
}

bool DeviceBuffers::on_device(const Request& request, Rank rank, Rank size) {
  const auto [input, output] = buffers_of(request, rank, size);
  return device_of(input) >= 0 || device_of(output) >= 0;
}

DeviceBuffers::DeviceBuffers(Request& request, Rank rank, Rank size, ScratchPool& pool)
    : given_(request) {
  const auto [input, output] = buffers_of(request, rank, size);
  const int of_input = device_of(input), of_output = device_of(output);
  if (overlap(input, output)) {  // in place: one is inside the other
    const std::uintptr_t begin = std::min(input.begin, output.begin);
    const std::uintptr_t end = std::max(input.begin + input.bytes, output.begin + output.bytes);
    first_ = take_pinned(pool, end - begin, of_output);
    input_ = {input.begin, first_.data() + (input.begin - begin), input.bytes};
    output_ = {output.begin, first_.data() + (output.begin - begin), output.bytes};
  } else {
    if (of_input >= 0) {
      first_ = take_pinned(pool, input.bytes, of_input);
      input_ = {input.begin, first_.data(), input.bytes};
    }
    if (of_output >= 0) {
      second_ = take_pinned(pool, output.bytes, of_output);
      output_ = {output.begin, second_.data(), output.bytes};
    }
  }
  if (input_.host != nullptr) request.input = moved(request.input, input.begin, input_.host);
  if (output_.host != nullptr) request.output = moved(request.output, output.begin, output_.host);
}

/// Calls visit(bytes from the begin, bytes) for what the call touches of a buffer.
template <class Visit>
Status DeviceBuffers::for_each_block(Space space, std::uint64_t bytes, Visit visit) const {
  if (given_.blocks == nullptr) return visit(std::uint64_t{0}, bytes);
  const std::size_t element = size_of(given_.call.type);
  const std::uint64_t first = given_.blocks->reach(space).begin;
  const auto& blocks = space == Space::input ? given_.blocks->input : given_.blocks->output;
  for (const UnequalBlocks::Block& block : blocks) {
    if (block.count == 0) continue;  // it may lie anywhere
    COLL_TRY(visit((block.offset - first) * element, block.count * element));
  }
  return {};
}

Status DeviceBuffers::fetch() const {
  if (input_.host == nullptr) return {};
  DeviceCopies copies;
  COLL_TRY(for_each_block(Space::input, input_.bytes, [&](std::uint64_t at, std::uint64_t bytes) {
    return copies.add(input_.host + at, reinterpret_cast<const void*>(input_.device + at), bytes);
  }));
  return copies.finish();
}

Status DeviceBuffers::store() const {
  if (output_.host == nullptr) return {};
  DeviceCopies copies;
  COLL_TRY(for_each_block(Space::output, output_.bytes, [&](std::uint64_t at, std::uint64_t bytes) {
    return copies.add(reinterpret_cast<void*>(output_.device + at), output_.host + at, bytes);
  }));
  return copies.finish();
}

}  // namespace coll
