// SPDX-License-Identifier: Apache-2.0
// Many parts as one call.
#include "communicator/calls/packed_parts.hpp"

#include <algorithm>

#include "sys/cuda/device_copies.hpp"

namespace coll {

PackedParts::PackedParts(Request& request, Rank rank, Rank size, ScratchPool& pool, bool on_host)
    : parts_(request.extras->parts),
      element_(size_of(request.call.type)),
      on_host_(on_host),
      block_(request.call.count * element_),
      shape_(block_shape(request.call.collective, size, request.call.root, rank)),
      first_(pool.take(block_ * std::max(shape_.input, shape_.output), ScratchUse::call)) {
  const InPlace rule = in_place(request.call.collective, size, request.call.root, rank);
  input_ = output_ = first_.data();
  if (rule.allowed) {
    (rule.input_inside_output ? input_ : output_) += rule.offset_blocks * block_;
  } else if (shape_.input != 0 && shape_.output != 0) {
    second_ = pool.take(block_ * shape_.output, ScratchUse::call);
    output_ = second_.data();
  }
  request.input = shape_.input != 0 ? input_ : nullptr;
  request.output = shape_.output != 0 ? output_ : nullptr;
}

template <class Copy>
void PackedParts::for_each_block(std::byte* packed, std::uint32_t blocks, Copy copy) const {
  for (std::uint32_t block = 0; block < blocks; ++block) {
    for (const CallPart& part : parts_->list) {
      const std::size_t bytes = part.count * element_;
      if (bytes != 0) copy(packed, part, block * bytes, bytes);
      packed += bytes;
    }
  }
}

Status PackedParts::pack() const {
  DeviceCopies copies(on_host_);
  for_each_block(input_, shape_.input,
                 [&](std::byte* packed, const CallPart& part, std::size_t at, std::size_t bytes) {
                   copies.add(packed, static_cast<const std::byte*>(part.input) + at, bytes);
                 });
  return copies.finish();
}

Status PackedParts::unpack() const {
  DeviceCopies copies(on_host_);
  for_each_block(
      output_, shape_.output,
      [&](const std::byte* packed, const CallPart& part, std::size_t at, std::size_t bytes) {
        copies.add(static_cast<std::byte*>(part.output) + at, packed, bytes);
      });
  return copies.finish();
}

}  // namespace coll
