// SPDX-License-Identifier: Apache-2.0
// The step: one fused pass over a few chunks.
#pragma once
#include <cstdint>

#include "base/types.hpp"

namespace coll {

/// The buffers that a step can name. Scratch belongs to the lane that uses it, and its content does
/// not outlive a pass.
enum class Space : std::uint8_t { none, input, output, scratch };

/// `count` consecutive chunks (Step::count) of a space, beginning at `chunk`; ChunkMap says what an
/// index means. Scratch chunk c is as long as part c % parts, because a step combines only chunks
/// of one part.
struct Operand {
  Space space = Space::none;
  std::uint32_t chunk = 0;

  [[nodiscard]] bool present() const { return space != Space::none; }
  friend bool operator==(const Operand&, const Operand&) = default;
};

/// One fused pass:   value = from [op with];   into := value;   to <- value.
/// Where `swapped`, value = with op from; that is another value only where op does not commute.
///
/// - `from` is either a message from rank `source` or local, never both.
/// - `with`, if present, is combined with `from` by the call's reduction: value = from op with.
/// - `into`, if present, stores the value. `target`, if present, receives it as one message. A step
///   has at least one of the two.
/// - A message is as long as the chunks that its step names. A message that is forwarded without
///   naming chunks is as long as parts 0 to count - 1.
/// - `count` chunks travel together as one message; 0 is an empty message (barriers).
///
/// Send, receive, copy, receive-reduce, receive-reduce-copy-send … are cases of a step. `into` may
/// be exactly the operand `from` or `with`, but may not overlap them in part.
struct Step {
  Rank source = kNoRank;  ///< receive `from` from this rank
  Rank target = kNoRank;  ///< send the value to this rank
  Operand from{};         ///< local source; absent if `source` is set or the message is empty
  Operand with{};
  Operand into{};
  std::uint32_t count = 1;
  /// This combination completes the reduction of its chunks, so the final operation (the division
  /// of avg) is part of this pass. Exactly one pass on the way of every reduced chunk sets it.
  bool finish = false;
  bool swapped = false;
  /// Wait until step `wait_step` of lane `wait_lane` of this rank is done in the same pass; -1: no
  /// wait.
  std::int16_t wait_lane = -1;
  std::int32_t wait_step = -1;

  /// The operand whose chunks determine the message's length, if the step names any.
  [[nodiscard]] const Operand& named() const {
    return into.present() ? into : with.present() ? with : from;
  }
  [[nodiscard]] bool receives() const { return source != kNoRank; }
  [[nodiscard]] bool sends() const { return target != kNoRank; }
  friend bool operator==(const Step&, const Step&) = default;
};

}  // namespace coll
