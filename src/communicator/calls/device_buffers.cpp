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
    input_ = {input, first_.data() + (input.begin - begin)};
    output_ = {output, first_.data() + (output.begin - begin)};
  } else {
    if (of_input >= 0) {
      first_ = take_pinned(pool, input.bytes, of_input);
      input_ = {input, first_.data()};
    }
    if (of_output >= 0) {
      second_ = take_pinned(pool, output.bytes, of_output);
      output_ = {output, second_.data()};
    }
  }
  if (input_.host != nullptr) request.input = moved(request.input, input, input_.host);
  if (output_.host != nullptr) request.output = moved(request.output, output, output_.host);
}

Status DeviceBuffers::fetch() const {
  DeviceCopies copies;
  if (input_.host != nullptr) {
    const auto* const device = reinterpret_cast<const std::byte*>(input_.device.begin);
    for_each_run(given_, Space::input, input_.device, [&](std::uint64_t at, std::uint64_t bytes) {
      copies.add(input_.host + at, device + at, bytes);
    });
  }
  return copies.finish();
}

Status DeviceBuffers::store() const {
  DeviceCopies copies;
  if (output_.host != nullptr) {
    auto* const device = reinterpret_cast<std::byte*>(output_.device.begin);
    for_each_run(given_, Space::output, output_.device, [&](std::uint64_t at, std::uint64_t bytes) {
      copies.add(device + at, output_.host + at, bytes);
    });
  }
  return copies.finish();
}

}  // namespace coll
