// SPDX-License-Identifier: Apache-2.0
// LaneBuilder: the vocabulary in which algorithms write their steps.
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

/// Appends steps to one lane. Each call appends one step and returns it, so that the caller can set
/// `finish`, waits and other members. The reference is valid until the next call.
class LaneBuilder {
 public:
  explicit LaneBuilder(Lane& lane) : lane_(&lane) {}

  /// Appends the step unchanged.
  Step& append(const Step& step) { return lane_->append(step); }

  Step& copy(Operand from, Operand into, std::uint32_t count = 1);
  Step& send(Operand from, Rank target, std::uint32_t count = 1);
  Step& receive(Rank source, Operand into, std::uint32_t count = 1);
  /// into := from; the same read also sends it to `target`
  Step& copy_send(Operand from, Operand into, Rank target, std::uint32_t count = 1);
  /// into := message, and forwards it to `target`
  Step& receive_send(Rank source, Operand into, Rank target, std::uint32_t count = 1);
  /// Forwards the message without keeping it.
  Step& forward(Rank source, Rank target, std::uint32_t count = 1);
  /// into := a op b, both local
  Step& reduce(Operand a, Operand b, Operand into, std::uint32_t count = 1);
  /// into := message op with
  Step& receive_reduce(Rank source, Operand with, Operand into, std::uint32_t count = 1);
  /// Sends message op with to `target`; keeps nothing.
  Step& receive_reduce_send(Rank source, Operand with, Rank target, std::uint32_t count = 1);
  /// into := message op with, and sends it to `target`
  Step& receive_reduce_copy_send(Rank source, Operand with, Operand into, Rank target,
                                 std::uint32_t count = 1);
  /// Sends or receives an empty message.
  Step& signal(Rank target);
  Step& await(Rank source);

  /// for (k = first; k < end; ++k) body(k), stored as repeats. `body` appends steps to this lane
  /// and does nothing else.
  ///
  /// It takes the memory, and about the time, of a few calls of `body`, whatever `end` is. For that
  /// the numbers in the steps must grow linearly in k, with few exceptions: where a number wraps
  /// around to 0, in the first iteration, or in the last. It calls `body` in any order, and skips
  /// iterations that lie on a line between two others. So an exception in the middle, such as
  /// `if (k == own) return;`, needs two loops.
  void repeat(Rank first, Rank end, const std::function<void(Rank k)>& body);

 private:
  Lane* lane_;
};

/// A schedule without steps: the operation's chunk map with `parts` per block, and `lanes` empty
/// lanes.
Schedule start_schedule(std::string algorithm, const CollectiveSpec& spec, Rank rank,
                        std::uint32_t parts, std::uint32_t lanes = 1,
                        std::uint32_t scratch_chunks = 0);

}  // namespace coll
