// SPDX-License-Identifier: Apache-2.0
// executor/: runs schedules. This file: messages that several peers get are written once.
#include "executor/staging.hpp"

#include <algorithm>

namespace coll {
void give_places(Program& program, const SharedMemorySource& memory) {
  const auto stages = [](const Program::LaneState& lane) { return lane.places.readers > 0; };
  const auto lanes =
      static_cast<std::size_t>(std::count_if(program.lanes.begin(), program.lanes.end(), stages));
  if (lanes == 0) return;
  const std::size_t stride = (std::size_t{program.shape.slice_bytes} + 63) / 64 * 64;
  const std::uint32_t count = program.shape.credits + 1;
  program.places = memory(lanes * count * stride);
  std::byte* begin = program.places.get();
  if (begin == nullptr) return;
  for (Program::LaneState& lane : program.lanes) {
    if (!stages(lane)) continue;
    lane.places.begin = begin;
    lane.places.stride = stride;
    lane.places.count = count;
    lane.places.least = program.shape.least_staged / lane.places.readers;
    begin += count * stride;
  }
}

Program::~Program() {
  const bool read = std::ranges::all_of(connections, &Connection::all_read);
  // Peers who come late to what they were sent still read it; nobody may get this memory again.
  if (!read) static_cast<void>(places.release());
}

}  // namespace coll
