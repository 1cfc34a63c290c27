// SPDX-License-Identifier: Apache-2.0
// Steps moved, and lanes compared with moved ones.
#include "schedule/proof/motion.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "schedule/print.hpp"
#include "schedule/schedule_fault.hpp"

namespace coll {

namespace {

std::uint32_t bits_backwards(std::uint32_t number, std::uint32_t below) {
  std::uint32_t result = 0;
  for (std::uint32_t bit = 1; bit < below; bit *= 2, number /= 2) result = 2 * result + number % 2;
  return result;
}

}  // namespace

Motion::Motion(const Symmetry& symmetry, PartsOf parts, const Schedule& of, Rank by)
    : symmetry_(symmetry), shifts_(symmetry.shifts()), all_(of.spec.ranks), by_(by) {
  const auto ranks = static_cast<std::uint32_t>(all_);
  const auto groups = ranks / static_cast<std::uint32_t>(symmetry.size);
  const auto moved = static_cast<std::uint32_t>(by);
  const std::uint32_t group = moved / static_cast<std::uint32_t>(symmetry.size);
  const ChunkMap& chunks = of.chunks;
  if (chunks.input_blocks == ranks || chunks.output_blocks == ranks) {
    turn_ = {.range = ranks, .unit = chunks.parts, .by = moved};
    if (chunks.input_blocks == ranks) input_ = turn_;
    if (chunks.output_blocks == ranks) output_ = turn_;
  } else if (chunks.parts % groups == 0) {
    const std::uint32_t to = parts == PartsOf::mirrored ? bits_backwards(group, groups) : group;
    const std::uint32_t unit = parts == PartsOf::stretch ? chunks.parts / groups : 1;
    input_ = output_ = turn_ = {.range = groups, .unit = unit, .by = to};
  }
  if (!shifts_ && std::has_single_bit(of.scratch_chunks)) {
    scratch_ = {.range = of.scratch_chunks, .by = turn_.by & (of.scratch_chunks - 1)};
  }
}

Rank Motion::rank(Rank from) const {
  return symmetry_.moved(from, by_, all_);
}

RankSet Motion::ranks(const RankSet& from) const {
  return shifts_ ? from.shifted(by_, all_) : from.exchanged(by_);
}

std::uint32_t Motion::turned(const Turn& turn, std::uint32_t chunk) const {
  const std::uint32_t within = chunk % turn.window();
  const std::uint32_t at = within / turn.unit;
  const std::uint32_t to = shifts_ ? (at + turn.by) % turn.range : at ^ turn.by;
  return chunk - within + to * turn.unit + chunk % turn.unit;
}

std::uint32_t Motion::chunk(Space space, std::uint32_t from) const {
  return turned(turn_of(space), from);
}

std::uint32_t Motion::place_within(std::uint32_t count, std::uint32_t place) const {
  if (!shifts_) return place ^ (turn_.by & (count - 1));
  return whole(count) ? turned(turn_, place) : place;
}

/// The chunks of a message must stay together, and change places within it in the same way in all
/// operands of all steps, so that both ends of a message mean the same. Under a shift that are
/// whole windows, or chunks that no wrap tears apart; under an exclusive or an aligned power of
/// two.
bool Motion::move(Operand& operand, std::uint32_t count) const {
  const std::uint32_t first = operand.chunk;
  const Turn& turn = turn_of(operand.space);
  if (shifts_ && whole(count)) return turn == turn_ && first % turn.window() == 0;
  operand.chunk = turned(turn, first);
  if (shifts_) return turned(turn, first + count - 1) == operand.chunk + count - 1;
  if (count == 1) return true;
  operand.chunk &= ~(count - 1);
  return turn.unit == 1 && first % count == 0 && ((turn.by ^ turn_.by) & (count - 1)) == 0;
}

std::optional<Step> Motion::step(const Step& from) const {
  Step step = from;
  if (!shifts_ && step.count > 1 && !std::has_single_bit(step.count)) return {};
  if (step.receives()) step.source = rank(step.source);
  if (step.sends()) step.target = rank(step.target);
  for (Operand* operand : {&step.from, &step.with, &step.into}) {
    if (operand->present() && !move(*operand, step.count)) return {};
  }
  return step;
}

bool Motion::keeps_lines(const Step& step, const Stride& stride, std::uint32_t times) const {
  if (!shifts_) return false;
  const auto keeps = [&](const Operand& first, const Operand& last, std::int32_t by) {
    const std::uint32_t window = turn_of(first.space).window();
    return !first.present() || first.chunk / window == last.chunk / window ||
           static_cast<std::uint32_t>(std::abs(by)) % window == 0;
  };
  const Step last = moved(step, stride, times - 1);
  return keeps(step.from, last.from, stride.from) && keeps(step.with, last.with, stride.with) &&
         keeps(step.into, last.into, stride.into);
}

namespace {

/// Goes through a lane's repeats.
struct Cursor {
  std::span<const Lane::Repeat> repeats;
  std::size_t repeat = 0, step = 0;  ///< `step` within the repeat

  [[nodiscard]] bool at_end() const { return repeat == repeats.size(); }
  [[nodiscard]] const Lane::Repeat& here() const { return repeats[repeat]; }
  [[nodiscard]] bool between_iterations() const { return step % here().body.size() == 0; }
  [[nodiscard]] std::size_t iterations_left() const {
    return (here().size() - step) / here().body.size();
  }
  [[nodiscard]] Step at(std::size_t ahead) const { return here().at(step + ahead); }
  void advance(std::size_t steps) {
    step += steps;
    if (step < here().size()) return;
    ++repeat;
    step = 0;
  }
};

/// A lane beside the one it should be an image of.
class Comparison {
 public:
  Comparison(const Motion& motion, const Lane& original, const Lane& image)
      : motion_(motion), original_{original.repeats()}, image_{image.repeats()} {}

  /// Does it go on, and equal so far?
  [[nodiscard]] bool goes_on() const {
    return !differs_ && !original_.at_end() && !image_.at_end();
  }
  [[nodiscard]] bool equal() const { return !differs_ && original_.at_end() && image_.at_end(); }
  /// Steps that are equal.
  [[nodiscard]] std::size_t index() const { return index_; }

  /// Compares whole iterations of two repeats with bodies of one length, else one step.
  void advance() {
    const std::size_t body = original_.here().body.size();
    const bool abreast = image_.here().body.size() == body && original_.between_iterations() &&
                         image_.between_iterations();
    if (!abreast) return compare(1, {0, 1});
    const std::size_t times = std::min(original_.iterations_left(), image_.iterations_left());
    if (times > 3 && keep_lines(times)) {
      compare(body * times, {0, 2 * body, body * (times - 1), body * times});
    } else {
      compare(body * times, {0, body * times});
    }
  }

 private:
  /// Numbers that grow evenly on both sides, and that the shift makes equal in the first, the
  /// second and the last iteration, it makes equal in all: in the first two they and their strides
  /// agree modulo the range, and between its ends a line does not leave the range.
  [[nodiscard]] bool keep_lines(std::size_t times) const {
    const Lane::Repeat& repeat = original_.here();
    for (std::size_t i = 0; i < repeat.body.size(); ++i) {
      if (!motion_.keeps_lines(original_.at(i), repeat.strides[i],
                               static_cast<std::uint32_t>(times))) {
        return false;
      }
    }
    return true;
  }

  /// Goes on by `steps`, and looks only at steps in the ranges [a, b), [c, d) …
  void compare(std::size_t steps, std::initializer_list<std::size_t> bounds) {
    for (auto bound = bounds.begin(); bound != bounds.end(); bound += 2) {
      for (std::size_t i = bound[0]; i < bound[1]; ++i) {
        if (are_alike(motion_.step(original_.at(i)), image_.at(i))) continue;
        differs_ = true;
        index_ += i;
        return;
      }
    }
    original_.advance(steps);
    image_.advance(steps);
    index_ += steps;
  }

  /// But for which operand is on the left: no spec that this proof takes asks for that.
  static bool are_alike(std::optional<Step> moved, Step image) {
    if (moved) moved->swapped = image.swapped;
    return moved == image;
  }

  const Motion& motion_;
  Cursor original_, image_;
  std::size_t index_ = 0;
  bool differs_ = false;
};

}  // namespace

Status check_moved(const Schedule& original, const Symmetry& symmetry, PartsOf parts, Rank by,
                   const Schedule& image) {
  const Motion motion(symmetry, parts, original, by);
  const auto differs = [&](const std::string& where) {
    return fault(image.rank, "is not what rank " + std::to_string(original.rank) +
                                 " is, moved by " + std::to_string(by) + ": " + where);
  };
  if (image.rank != motion.rank(original.rank) || image.spec != original.spec ||
      image.chunks != original.chunks || image.scratch_chunks != original.scratch_chunks ||
      image.lanes.size() != original.lanes.size()) {
    return differs("another rank, operation, chunk map or number of lanes");
  }
  for (std::size_t lane = 0; lane < image.lanes.size(); ++lane) {
    Comparison comparison(motion, original.lanes[lane], image.lanes[lane]);
    while (comparison.goes_on()) comparison.advance();
    if (comparison.equal()) continue;
    const std::size_t index = comparison.index();
    const std::string step = index < image.lanes[lane].size()
                                 ? " (" + print(image.lanes[lane][index]) + ")"
                                 : ", which is missing";
    return differs("lane " + std::to_string(lane) + " step " + std::to_string(index) + step);
  }
  return {};
}

}  // namespace coll
