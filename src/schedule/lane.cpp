// SPDX-License-Identifier: Apache-2.0
// Repeats, written and read as the steps they stand for.
#include "schedule/lane.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace coll {
namespace {

/// Chunk indices and strides are taken modulo 2^32, so a stride may be negative.
std::uint32_t moved(std::uint32_t chunk, std::int32_t stride, std::uint32_t times) {
  return chunk + static_cast<std::uint32_t>(stride) * times;
}
std::int32_t moved(std::int32_t number, std::int32_t stride, std::uint32_t times) {
  return static_cast<std::int32_t>(moved(static_cast<std::uint32_t>(number), stride, times));
}

std::int32_t difference(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(b - a);
}
std::int32_t difference(std::int32_t a, std::int32_t b) {
  return difference(static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b));
}

}  // namespace

Step moved(const Step& step, const Stride& stride, std::uint32_t times) {
  Step result = step;
  result.source = moved(step.source, stride.source, times);
  result.target = moved(step.target, stride.target, times);
  result.from.chunk = moved(step.from.chunk, stride.from, times);
  result.with.chunk = moved(step.with.chunk, stride.with, times);
  result.into.chunk = moved(step.into.chunk, stride.into, times);
  result.wait_step = moved(step.wait_step, stride.wait_step, times);
  return result;
}

std::optional<Stride> stride_between(const Step& a, const Step& b) {
  if (a.receives() != b.receives() || a.sends() != b.sends()) return {};
  const Stride stride{.source = difference(a.source, b.source),
                      .target = difference(a.target, b.target),
                      .from = difference(a.from.chunk, b.from.chunk),
                      .with = difference(a.with.chunk, b.with.chunk),
                      .into = difference(a.into.chunk, b.into.chunk),
                      .wait_step = difference(a.wait_step, b.wait_step)};
  if (moved(a, stride, 1) != b) return {};
  return stride;
}

Lane::Lane(std::vector<Step> steps) {
  if (steps.empty()) return;
  size_ = steps.size();
  repeats_.push_back({.body = std::move(steps), .strides = {}});
}

Step Lane::operator[](std::size_t index) const {
  auto repeat = std::upper_bound(
      repeats_.begin(), repeats_.end(), index,
      [](std::size_t step, const Repeat& candidate) { return step < candidate.begin; });
  --repeat;
  return repeat->at(index - repeat->begin);
}

Lane::Iterator Lane::begin() const {
  return {repeats_, 0};
}

Lane::Iterator Lane::end() const {
  return {repeats_, repeats_.size()};
}

std::size_t Lane::stored() const {
  std::size_t sum = 0;
  for (const Repeat& repeat : repeats_) sum += repeat.body.size();
  return sum;
}

Step& Lane::append(const Step& step) {
  if (repeats_.empty() || repeats_.back().times > 1) {
    repeats_.push_back({.body = {}, .strides = {}, .begin = size_});
  }
  ++size_;
  return repeats_.back().body.emplace_back(step);
}

void Lane::append(std::vector<Step> body, std::vector<Stride> strides, std::uint32_t times) {
  COLL_CHECK(body.size() == strides.size(), "every step of a repeat has a stride");
  if (times < 2) {
    for (const Step& step : body) {
      if (times == 1) append(step);
    }
    return;
  }
  if (body.empty()) return;
  repeats_.push_back(
      {.body = std::move(body), .strides = std::move(strides), .times = times, .begin = size_});
  size_ += repeats_.back().size();
}

std::vector<Step> Lane::take_from(std::size_t index) {
  std::vector<Step> taken;
  for (std::size_t at = index; at < size_; ++at) taken.push_back((*this)[at]);
  while (!repeats_.empty() && repeats_.back().begin >= index) repeats_.pop_back();
  if (!repeats_.empty()) {
    Repeat& last = repeats_.back();
    COLL_CHECK(last.begin + last.size() <= index || last.times == 1, "a repeat is taken whole");
    if (last.times == 1) last.body.resize(index - last.begin);
  }
  size_ = index;
  return taken;
}

bool operator==(const Lane& a, const Lane& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

Lane::Iterator::Iterator(std::span<const Repeat> repeats, std::size_t repeat)
    : repeats_(repeats), repeat_(repeat) {
  load();
}

void Lane::Iterator::load() {
  if (repeat_ < repeats_.size()) step_ = repeats_[repeat_].at(step_number_);
}

Lane::Iterator& Lane::Iterator::operator++() {
  if (++step_number_ == repeats_[repeat_].size()) {
    ++repeat_;
    step_number_ = 0;
  }
  load();
  return *this;
}

Lane::Iterator Lane::Iterator::operator++(int) {
  Iterator before = *this;
  ++*this;
  return before;
}

}  // namespace coll
