// SPDX-License-Identifier: Apache-2.0
// The lane, a list of steps that takes little memory where they repeat.
#pragma once
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "schedule/step.hpp"

namespace coll {

/// What is added, from one iteration of a repeat to the next, to each number that a step names.
struct Stride {
  Rank source = 0, target = 0;
  std::int32_t from = 0, with = 0, into = 0;  ///< to the chunk
  std::int32_t wait_step = 0;

  friend bool operator==(const Stride&, const Stride&) = default;
};

/// The step as iteration `times` of a repeat has it, counted from 0.
Step moved(const Step& step, const Stride& stride, std::uint32_t times);
/// What moves `a` to `b`; none if they differ in more than the numbers that can move.
std::optional<Stride> stride_between(const Step& a, const Step& b);

/// A sequential list of steps with connections of its own: lane l of one rank talks to lane l of
/// its peers.
///
/// It reads as a list of steps, those that are executed, and every index (also Step::wait_step)
/// counts these. It is kept as repeats: a few steps, how often they are done, and by how much each
/// number in them moves on from one iteration to the next. So a ring of any number of ranks is a
/// handful of stored steps. A number that wraps around to 0 ends one repeat and begins another.
class Lane {
 public:
  /// Steps done `times` times, one after the other. `strides` has one for each; with `times` = 1
  /// there are none.
  struct Repeat {
    std::vector<Step> body;  ///< as the first iteration has it
    std::vector<Stride> strides;
    std::uint32_t times = 1;
    std::size_t begin = 0;  ///< steps executed before it

    [[nodiscard]] std::size_t size() const { return body.size() * times; }
    [[nodiscard]] Step at(std::size_t index) const {
      if (times == 1) return body[index];
      const std::size_t step = index % body.size();
      return moved(body[step], strides[step], static_cast<std::uint32_t>(index / body.size()));
    }
  };
  class Iterator;

  Lane() = default;
  explicit Lane(std::vector<Step> steps);

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Step `index` of those executed; logarithmic in the number of repeats.
  [[nodiscard]] Step operator[](std::size_t index) const;
  [[nodiscard]] Iterator begin() const;
  [[nodiscard]] Iterator end() const;

  [[nodiscard]] std::span<const Repeat> repeats() const { return repeats_; }
  /// Steps that are kept: the memory a lane takes.
  [[nodiscard]] std::size_t stored() const;

  /// The new last step, to be changed until the next is appended.
  Step& append(const Step& step);
  /// The steps, `times` times; `strides` has one for each.
  void append(std::vector<Step> body, std::vector<Stride> strides, std::uint32_t times);
  /// Takes the steps from `index` on away again; a repeat goes as a whole.
  std::vector<Step> take_from(std::size_t index);

  /// Is the same executed, however it is kept?
  friend bool operator==(const Lane& a, const Lane& b);

 private:
  std::vector<Repeat> repeats_;
  std::size_t size_ = 0;
};

/// Walks over the executed steps; the one it stands at lives in the iterator.
class Lane::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Step;
  using difference_type = std::ptrdiff_t;
  using pointer = const Step*;
  using reference = const Step&;

  Iterator(std::span<const Repeat> repeats, std::size_t repeat);

  reference operator*() const { return step_; }
  pointer operator->() const { return &step_; }
  Iterator& operator++();
  Iterator operator++(int);
  friend bool operator==(const Iterator& a, const Iterator& b) {
    return a.repeat_ == b.repeat_ && a.step_number_ == b.step_number_;
  }

 private:
  void load();

  std::span<const Repeat> repeats_;
  std::size_t repeat_;           ///< the one it is in
  std::size_t step_number_ = 0;  ///< within that
  Step step_;
};

}  // namespace coll
