// SPDX-License-Identifier: Apache-2.0
// All ranks moved at once, with the chunks that belong to them.
#pragma once
#include <optional>

#include "base/status.hpp"
#include "schedule/rank_set.hpp"
#include "schedule/schedule.hpp"
#include "schedule/symmetry.hpp"

namespace coll {

/// Which of the parts of a single block belong to a group of ranks, where there are as many for
/// each: an equal stretch for each in turn; or one part for each, over and over; or as that, with
/// the bits of the groups' numbers read backwards. Where each rank has a block of its own, all
/// parts stay.
enum class PartsOf : std::uint8_t { stretch, stride, mirrored };

/// One of the motions of a symmetry: every rank goes to another, and the chunks that belong to
/// ranks with it: blocks, or parts. All other chunks stay; scratch, whose numbers mean nothing to
/// others, stays under a shift, and under an exclusive or moves if its chunks are a power of two.
class Motion {
 public:
  /// By `by` ranks, a multiple of symmetry.size, 0 <= by < ranks. `of` is the schedule of any rank;
  /// all have the same chunks. It, and the steps to be moved, keep the rules (step_rules.hpp).
  Motion(const Symmetry& symmetry, PartsOf parts, const Schedule& of, Rank by);

  [[nodiscard]] Rank rank(Rank from) const;
  [[nodiscard]] RankSet ranks(const RankSet& from) const;
  [[nodiscard]] std::uint32_t chunk(Space space, std::uint32_t from) const;
  /// Where the chunk at `place` of a message of `count` chunks comes to be in the moved message.
  [[nodiscard]] std::uint32_t place_within(std::uint32_t count, std::uint32_t place) const;
  /// None if the chunks of an operand, or of the message, do not stay together.
  [[nodiscard]] std::optional<Step> step(const Step& from) const;
  /// Does it move the steps of a repeat's iterations alike, so that lines stay lines up to a wrap?
  [[nodiscard]] bool keeps_lines(const Step& step, const Stride& stride, std::uint32_t times) const;

 private:
  /// Chunks that take turns: windows of `range` units.
  struct Turn {
    std::uint32_t range = 1;
    std::uint32_t unit = 1;  ///< chunks that move as one
    std::uint32_t by = 0;    ///< units, less than `range`

    [[nodiscard]] std::uint32_t window() const { return range * unit; }
    friend bool operator==(const Turn&, const Turn&) = default;
  };
  [[nodiscard]] std::uint32_t turned(const Turn& turn, std::uint32_t chunk) const;
  /// Is it as long as whole windows of chunks that take turns?
  [[nodiscard]] bool whole(std::uint32_t count) const {
    return turn_.range > 1 && count > 0 && count % turn_.window() == 0;
  }
  [[nodiscard]] const Turn& turn_of(Space space) const {
    return space == Space::input ? input_ : space == Space::output ? output_ : scratch_;
  }
  [[nodiscard]] bool move(Operand& operand, std::uint32_t count) const;

  Symmetry symmetry_;
  bool shifts_;
  Rank all_, by_;
  Turn input_, output_, scratch_;
  Turn turn_;  ///< of the spaces whose chunks belong to ranks
};

/// Is `image` what the motion of all ranks by `by` makes of `original`? For shifts in a time that
/// depends on what their lanes keep, not on what they execute. The failure names rank and step.
Status check_moved(const Schedule& original, const Symmetry& symmetry, PartsOf parts, Rank by,
                   const Schedule& image);

}  // namespace coll
