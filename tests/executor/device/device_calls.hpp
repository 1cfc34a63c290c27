// SPDX-License-Identifier: Apache-2.0
// What tests draw that compare calls on a device with the CPU's, for either family of executors.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "executor/executor.hpp"
#include "schedule/chunk_map.hpp"

namespace coll::testing {

struct DeviceOperation {
  ReduceOp op;
  DataType type;
};

/// Any reduction of any type that it has a meaning for.
inline DeviceOperation draw_operation(std::mt19937_64& random) {
  for (;;) {
    const DeviceOperation drawn{static_cast<ReduceOp>(random() % kReduceOps),
                                static_cast<DataType>(random() % kDataTypes)};
    if (has_meaning(drawn.op, drawn.type)) return drawn;
  }
}

/// Up to two elements; of some calls, off the element too, since buffers need no alignment.
inline std::size_t draw_offset(std::size_t element, bool off_element, std::mt19937_64& random) {
  return random() % 3 * element + (off_element ? random() % element : 0);
}

/// The bytes of one rank's call: its buffers apart, or one inside the other, anywhere.
struct CallBytes {
  std::vector<std::byte> bytes;
  std::size_t input = 0, output = 0;
  CallBinding call;

  CallBytes(const CollectiveSpec& spec, Rank rank, std::uint64_t count, DeviceOperation operation,
            bool want_in_place, std::mt19937_64& random) {
    const BlockShape shape = block_shape(spec.collective, spec.ranks, spec.root, rank);
    const InPlace place = in_place(spec.collective, spec.ranks, spec.root, rank);
    const std::size_t size = size_of(operation.type), block = count * size;
    const bool off_element = random() % 3 == 0;
    const std::size_t begin = draw_offset(size, off_element, random);
    call.apart = !want_in_place || !place.allowed;
    input = output = begin;
    if (call.apart) {
      output += shape.input * block + draw_offset(size, off_element, random);
      bytes.resize(output + shape.output * block);
    } else {
      bytes.resize(begin + std::max(shape.input, shape.output) * block);
      (place.input_inside_output ? input : output) += place.offset_blocks * block;
    }
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    call.count = count;
    call.element_bytes = size;
    call.op = operation.op;
    call.type = operation.type;
    call.kernels = &reduce::kernels(operation.op, operation.type);
    call.digest = 42;
  }
  /// With the buffers in memory that begins there.
  [[nodiscard]] CallBinding at(std::byte* begin) const {
    CallBinding moved = call;
    moved.input = begin + input;
    moved.output = begin + output;
    return moved;
  }
};

/// A fused step holds the slot that it received until it gets one to send in (kLeastCredits).
inline std::uint32_t least_credits(const std::vector<Schedule>& schedules) {
  for (const Schedule& schedule : schedules)
    for (const Lane& lane : schedule.lanes)
      for (const Step& step : lane)
        if (step.sends() && step.receives()) return kLeastCredits;
  return 1;
}

inline Layout two_hosts(Rank ranks) {
  std::vector<Place> places(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < places.size(); ++r) places[r].host = 2 * r < places.size() ? 0 : 1;
  return make_layout(places);
}

}  // namespace coll::testing
