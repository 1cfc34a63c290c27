// SPDX-License-Identifier: Apache-2.0
// The step, one fused pass over one chunk.
#pragma once
#include <cstdint>

#include "base/types.hpp"

namespace coll {

/// The buffers a step can name. Scratch belongs to the lane that uses it; its content does not
/// outlive a pass.
enum class Space : std::uint8_t { none, input, output, scratch };

/// `count` consecutive chunks (Step::count) of a space, beginning at `chunk`. See ChunkMap for
/// indices. Scratch chunk c is as long as part c % parts: only chunks of one part meet in a step.
struct Operand {
  Space space = Space::none;
  std::uint32_t chunk = 0;

  [[nodiscard]] bool present() const { return space != Space::none; }
  friend bool operator==(const Operand&, const Operand&) = default;
};

/// One fused pass:   value = from [op with];   into := value;   to <- value.
///
/// - `from` is either a message of rank `source`, or local; never both.
/// - `with`, if present, is combined with it by the call's reduction: value = from op with.
/// - `into`, if present, gets the value; `target`, if present, is sent it as one message. At least
/// one is.
/// - a message is as long as the chunks its step names; one that is passed on without naming any,
/// as parts 0 to count - 1.
/// - `count` chunks go through together, as one message; 0 is an empty message (barriers).
///
/// Send, receive, copy, receive-reduce, receive-reduce-copy-send … are its cases. `into` may be the
/// very operand `from` or `with` names, but may not overlap them otherwise.
struct Step {
  Rank source = kNoRank;  ///< receive `from` from this rank
  Rank target = kNoRank;  ///< send the value to this rank
  Operand from{};         ///< local source; absent if `source` is set or the message is empty
  Operand with{};
  Operand into{};
  std::uint32_t count = 1;
  /// The combination completes the reduction of these chunks: the operation's end (the division of
  /// avg) is part of this pass. Exactly one pass on the way of every reduced chunk has it.
  bool finish = false;
  /// Wait until step `wait_step` of lane `wait_lane` of this rank is done (in the same pass); -1:
  /// no wait.
  std::int16_t wait_lane = -1;
  std::int32_t wait_step = -1;

  /// The chunks that give its message its length, if it names any.
  [[nodiscard]] const Operand& named() const {
    return into.present() ? into : with.present() ? with : from;
  }
  [[nodiscard]] bool receives() const { return source != kNoRank; }
  [[nodiscard]] bool sends() const { return target != kNoRank; }
  friend bool operator==(const Step&, const Step&) = default;
};

}  // namespace coll
