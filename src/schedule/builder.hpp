// SPDX-License-Identifier: Apache-2.0
// The words that algorithms are written in.
#pragma once
#include <functional>

#include "schedule/schedule.hpp"

namespace coll {

constexpr Operand input(std::uint32_t chunk) {
  return {Space::input, chunk};
}
constexpr Operand output(std::uint32_t chunk) {
  return {Space::output, chunk};
}
constexpr Operand scratch(std::uint32_t chunk) {
  return {Space::scratch, chunk};
}

/// Appends steps to one lane; each call is one step and returns it for `.finish`, waits and the
/// like, until the next call.
class LaneBuilder {
 public:
  explicit LaneBuilder(Lane& lane) : lane_(&lane) {}

  /// a step as it is
  Step& append(const Step& step) { return lane_->append(step); }

  Step& copy(Operand from, Operand into, std::uint32_t count = 1);
  Step& send(Operand from, Rank target, std::uint32_t count = 1);
  Step& receive(Rank source, Operand into, std::uint32_t count = 1);
  /// into := from, and to `target` from the same read
  Step& copy_send(Operand from, Operand into, Rank target, std::uint32_t count = 1);
  /// into := message, and passed on to `target`
  Step& receive_send(Rank source, Operand into, Rank target, std::uint32_t count = 1);
  /// passed on without keeping it
  Step& forward(Rank source, Rank target, std::uint32_t count = 1);
  /// into := a op b, both local
  Step& reduce(Operand a, Operand b, Operand into, std::uint32_t count = 1);
  /// into := message op with
  Step& receive_reduce(Rank source, Operand with, Operand into, std::uint32_t count = 1);
  /// message op with, to `target` only
  Step& receive_reduce_send(Rank source, Operand with, Rank target, std::uint32_t count = 1);
  /// into := message op with, and to `target`
  Step& receive_reduce_copy_send(Rank source, Operand with, Operand into, Rank target,
                                 std::uint32_t count = 1);
  /// empty messages
  Step& signal(Rank target);
  Step& await(Rank source);

  /// for (k = first; k < end; ++k) body(k), where `body` appends steps to this lane and does
  /// nothing else. Takes the memory, and about the time, of a few calls of it, whatever `end` is:
  /// the steps may change in another way than by adding to their numbers a few times only (where a
  /// number wraps around to 0, in the first iteration or the last). It may call `body` in any order
  /// and, between two iterations that a line of numbers leads through, not at all: so an exception
  /// in the middle, such as `if (k == own) return;`, needs two loops.
  void repeat(Rank first, Rank end, const std::function<void(Rank k)>& body);

 private:
  Lane* lane_;
};

/// An empty schedule with the right chunk map: `parts` per block, `lanes` empty lanes.
Schedule start_schedule(std::string algorithm, const CollectiveSpec& spec, Rank rank,
                        std::uint32_t parts, std::uint32_t lanes = 1,
                        std::uint32_t scratch_chunks = 0);

}  // namespace coll
