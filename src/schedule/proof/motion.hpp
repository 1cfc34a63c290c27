// SPDX-License-Identifier: Apache-2.0
// Motions: all ranks move at once, and the chunks that belong to them move along.
#pragma once
#include <optional>

#include "base/status.hpp"
#include "schedule/rank_set.hpp"
#include "schedule/schedule.hpp"
#include "schedule/symmetry.hpp"

namespace coll {

/// Which parts of a single block belong to which group of ranks, if each group has equally many:
///
/// - stretch: an equal range of parts for each group in turn
/// - stride: one part for each group, over and over
/// - mirrored: like stride, with the bits of the groups' numbers reversed
///
/// If each rank has a block of its own, parts do not move.
enum class PartsOf : std::uint8_t { stretch, stride, mirrored };

/// One motion of a symmetry. Every rank moves to another rank, and the chunks that belong to ranks
/// (blocks or parts) move along. All other chunks stay. Scratch chunk numbers mean nothing to other
/// ranks: scratch stays under a shift, and under an exclusive or it moves if its number of chunks
/// is a power of two.
class Motion {
 public:
  /// Moves ranks by `by`, a multiple of symmetry.size, 0 <= by < ranks. `of` is any rank's
  /// schedule, because all have the same chunks. It, and the steps to move, must keep the rules of
  /// step_rules.hpp.
  Motion(const Symmetry& symmetry, PartsOf parts, const Schedule& of, Rank by);

  [[nodiscard]] Rank rank(Rank from) const;
  [[nodiscard]] RankSet ranks(const RankSet& from) const;
  [[nodiscard]] std::uint32_t chunk(Space space, std::uint32_t from) const;
  /// The place in the moved message of the chunk at `place` of a message of `count` chunks.
  [[nodiscard]] std::uint32_t place_within(std::uint32_t count, std::uint32_t place) const;
  /// The moved step; none if the chunks of an operand, or of the message, do not stay consecutive.
  [[nodiscard]] std::optional<Step> step(const Step& from) const;
  /// Whether the motion moves all iterations of a repeat alike, so that linear numbers stay linear
  /// up to a wrap.
  [[nodiscard]] bool keeps_lines(const Step& step, const Stride& stride, std::uint32_t times) const;

 private:
  /// Chunks that rotate within windows of `range` units.
  struct Turn {
    std::uint32_t range = 1;
    std::uint32_t unit = 1;  ///< chunks that move as one
    std::uint32_t by = 0;    ///< distance in units, less than `range`

    [[nodiscard]] std::uint32_t window() const { return range * unit; }
    friend bool operator==(const Turn&, const Turn&) = default;
  };
  [[nodiscard]] std::uint32_t turned(const Turn& turn, std::uint32_t chunk) const;
  /// Whether `count` chunks are a whole number of windows.
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
  Turn turn_;  ///< for the spaces whose chunks belong to ranks
};

/// Checks that moving all ranks by `by` turns `original` into `image`. For shifts it takes time
/// proportional to the stored steps of the lanes, not to the executed ones. The failure names rank
/// and step.
Status check_moved(const Schedule& original, const Symmetry& symmetry, PartsOf parts, Rank by,
                   const Schedule& image);

}  // namespace coll
