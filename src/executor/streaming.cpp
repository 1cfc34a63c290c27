// SPDX-License-Identifier: Apache-2.0
// Which results may be stored past the caches.
#include "executor/streaming.hpp"

#include <algorithm>

namespace coll {
namespace {

/// Where a rank's steps touch the output, and what they read of the input.
class Touches {
 public:
  explicit Touches(const Schedule& schedule)
      : touches_(schedule.chunks.chunks(Space::output)), read_(touches_.size()) {
    const CollectiveSpec& spec = schedule.spec;
    const InPlace place = in_place(spec.collective, spec.ranks, spec.root, schedule.rank);
    for (const Lane& lane : schedule.lanes) {
      for (const Step& step : lane) {
        for (const Operand& operand : {step.from, step.with, step.into}) {
          if (operand.space == Space::output) touch(operand.chunk, step.count);
          if (operand.space != Space::input || !place.allowed) continue;
          read(place.output_chunk(operand.chunk, schedule.chunks.parts), step.count);
        }
      }
    }
  }
  [[nodiscard]] BoundStep::When streams(const Step& step) const {
    using enum BoundStep::When;
    if (step.into.space != Space::output) return never;
    bool read = false;
    for (std::uint32_t chunk = step.into.chunk; chunk < step.into.chunk + step.count; ++chunk) {
      if (touches_[chunk] > 1) return never;
      read = read || read_[chunk];
    }
    return read ? if_apart : always;
  }

 private:
  void touch(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t chunk = first; chunk < first + count; ++chunk) {
      touches_[chunk] = static_cast<std::uint8_t>(std::min(touches_[chunk] + 1, 2));
    }
  }
  void read(std::int64_t first, std::uint32_t count) {
    const auto end = std::min(first + count, static_cast<std::int64_t>(read_.size()));
    for (std::int64_t chunk = std::max<std::int64_t>(first, 0); chunk < end; ++chunk) {
      read_[static_cast<std::size_t>(chunk)] = true;
    }
  }

  std::vector<std::uint8_t> touches_;  ///< of the output's chunks: none, one, several
  std::vector<bool> read_;  ///< those that the input is in a call in place, if a step reads it
};

}  // namespace

std::vector<std::vector<BoundStep::When>> find_streams(const Schedule& schedule) {
  const Touches touches(schedule);
  std::vector<std::vector<BoundStep::When>> streams;
  for (const Lane& lane : schedule.lanes) {
    std::vector<BoundStep::When>& of_lane = streams.emplace_back();
    for (const Step& step : lane) of_lane.push_back(touches.streams(step));
  }
  return streams;
}

}  // namespace coll
