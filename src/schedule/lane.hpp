// SPDX-License-Identifier: Apache-2.0
// The lane: a list of steps that stores repeated steps once.
#pragma once
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "schedule/step.hpp"

namespace coll {

/// What one iteration of a repeat adds to each number in a step.
struct Stride {
  Rank source = 0, target = 0;
  std::int32_t from = 0, with = 0, into = 0;  ///< for the operands' chunks
  std::int32_t wait_step = 0;

  friend bool operator==(const Stride&, const Stride&) = default;
};

/// The step in iteration `times` of a repeat, counted from 0.
Step moved(const Step& step, const Stride& stride, std::uint32_t times);
/// The stride from `a` to `b`; none if they differ in more than the numbers that a stride changes.
std::optional<Stride> stride_between(const Step& a, const Step& b);

/// A sequential list of steps with its own connections: lane l of a rank talks to lane l of its
/// peers.
///
/// A lane reads as the list of executed steps, and every index (also Step::wait_step) counts
/// executed steps. It is stored as repeats: a few steps, the number of iterations, and a stride for
/// each step. So a ring of any number of ranks is a handful of stored steps. A number that wraps
/// around to 0 ends one repeat and begins another.
class Lane {
 public:
  /// Steps that run `times` times in sequence. `strides` has one stride per step, or none if
  /// `times` is 1.
  struct Repeat {
    std::vector<Step> body;  ///< the steps of the first iteration
    std::vector<Stride> strides;
    std::uint32_t times = 1;
    std::size_t begin = 0;  ///< number of steps executed before the repeat

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
  /// The executed step `index`; takes time logarithmic in the number of repeats.
  [[nodiscard]] Step operator[](std::size_t index) const;
  [[nodiscard]] Iterator begin() const;
  [[nodiscard]] Iterator end() const;

  [[nodiscard]] std::span<const Repeat> repeats() const { return repeats_; }
  /// The number of stored steps, which is the memory that the lane takes.
  [[nodiscard]] std::size_t stored() const;

  /// Appends a step. The caller may change the returned step until the next append.
  Step& append(const Step& step);
  /// Appends `times` iterations of the steps; `strides` has one stride per step.
  void append(std::vector<Step> body, std::vector<Stride> strides, std::uint32_t times);
  /// Removes and returns the steps from `index` on. A repeat can only be removed as a whole.
  std::vector<Step> take_from(std::size_t index);

  /// Whether both execute the same steps, however they are stored.
  friend bool operator==(const Lane& a, const Lane& b);

 private:
  std::vector<Repeat> repeats_;
  std::size_t size_ = 0;
};

/// Walks over the executed steps. The current step lives in the iterator.
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
  std::size_t repeat_;           ///< index of the current repeat
  std::size_t step_number_ = 0;  ///< within that repeat
  Step step_;
};

}  // namespace coll
