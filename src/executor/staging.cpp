// SPDX-License-Identifier: Apache-2.0
// executor/: runs schedules. This file: messages that several peers get are written once.
#include "executor/staging.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace coll {
namespace {

/// Peers that are in the same call, and share cores, come to read within this time.
constexpr std::chrono::milliseconds kPatience{20};

}  // namespace

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
  if (!places) return;
  const auto all_read = [this] {
    return std::all_of(connections.begin(), connections.end(),
                       [](Connection* connection) { return connection->all_read(); });
  };
  // Ranks that end together wait for each other: not for every program anew.
  thread_local std::chrono::steady_clock::time_point end;
  const auto now = std::chrono::steady_clock::now();
  if (now > end + std::chrono::seconds(1)) end = now + kPatience;
  bool read = all_read();
  while (!read && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    read = all_read();
  }
  // Peers who come late to what they were sent still read it; nobody may get this memory again.
  if (!read) static_cast<void>(places.release());
}

}  // namespace coll
