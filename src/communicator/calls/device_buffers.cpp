// SPDX-License-Identifier: Apache-2.0
// Copies by the CUDA driver around a call on the host.
#include "communicator/calls/device_buffers.hpp"

#include <algorithm>
#include <utility>

#include "sys/cuda/device_copies.hpp"
#include "sys/memory/memory_places.hpp"

namespace coll {
namespace {

/// Pinned memory of the host, for copies with a GPU.
ScratchPool::Block take_pinned(ScratchPool& pool, std::size_t bytes, int device) {
  return pool.take(bytes, ScratchUse::device,
                   [device](ScratchPool::Memory memory, std::size_t all) {
                     // Made first: once the memory is pinned, nothing may fail.
                     ScratchPool::Memory pinned(
                         nullptr, [free = memory.get_deleter(), device](std::byte* begin) {
                           unpin_memory(begin, device);
                           free(begin);
                         });
                     if (!pin_memory(memory.get(), all, device)) return memory;
                     pinned.reset(memory.release());
                     return pinned;
                   });
}

}  // namespace

int device_of(const Buffer& buffer) {
  if (buffer.bytes == 0) return -1;
  const MemoryPlace place = place_of_memory(reinterpret_cast<const void*>(buffer.begin));
  return place.kind == MemoryKind::device ? place.device : -1;
}

StagedPair stage(const Buffers& buffers, bool input_there, bool output_there) {
  const auto& [input, output] = buffers;
  constexpr std::size_t kAligned = 64;
  StagedPair pair;
  if ((input_there || output_there) && overlap(input, output)) {  // one is inside the other
    const std::uintptr_t begin = std::min(input.begin, output.begin);
    pair.input = input.begin - begin;
    pair.output = output.begin - begin;
    pair.bytes = std::max(pair.input + input.bytes, pair.output + output.bytes);
    return pair;
  }
  const auto take = [&pair](std::size_t& offset, const Buffer& buffer) {
    offset = (pair.bytes + kAligned - 1) / kAligned * kAligned;
    pair.bytes = offset + buffer.bytes;
  };
  if (input_there) take(pair.input, input);
  if (output_there) take(pair.output, output);
  return pair;
}

bool DeviceBuffers::on_device(const Request& request, Rank rank, Rank size) {
  const auto [input, output] = buffers_of(request, rank, size);
  return device_of(input) >= 0 || device_of(output) >= 0;
}

DeviceBuffers::DeviceBuffers(Request& request, Rank rank, Rank size, ScratchPool& pool)
    : given_(request), buffers_(buffers_of(request, rank, size)) {
  const int of_input = device_of(buffers_.input), of_output = device_of(buffers_.output);
  pair_ = stage(buffers_, of_input >= 0, of_output >= 0);
  block_ = take_pinned(pool, pair_.bytes, std::max(of_input, of_output));
  if (pair_.has_input())
    request.input = moved(request.input, buffers_.input, block_.data() + pair_.input);
  if (pair_.has_output())
    request.output = moved(request.output, buffers_.output, block_.data() + pair_.output);
}

Status DeviceBuffers::fetch() const {
  DeviceCopies copies;
  if (pair_.has_input()) {
    const auto* const device = reinterpret_cast<const std::byte*>(buffers_.input.begin);
    for_each_run(given_, Space::input, buffers_.input, [&](std::uint64_t at, std::uint64_t bytes) {
      copies.add(block_.data() + pair_.input + at, device + at, bytes);
    });
  }
  return copies.finish();
}

Status DeviceBuffers::store() const {
  DeviceCopies copies;
  if (pair_.has_output()) {
    auto* const device = reinterpret_cast<std::byte*>(buffers_.output.begin);
    for_each_run(given_, Space::output, buffers_.output,
                 [&](std::uint64_t at, std::uint64_t bytes) {
                   copies.add(device + at, block_.data() + pair_.output + at, bytes);
                 });
  }
  return copies.finish();
}

}  // namespace coll
