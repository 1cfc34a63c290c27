// SPDX-License-Identifier: Apache-2.0
// Finds the memories of a bucket's parameters.
#include "error_feedback.hpp"

#include <cmath>

namespace training {

void ErrorFeedback::begin(const Units<float>& units, Arena& arena) {
  std::size_t size = 0;
  ranges_.clear();
  for (const auto& unit : units) {
    ranges_.emplace_back();
    for (const ParameterInfo& parameter : unit->parameters()) {
      ranges_.back().push_back({size, parameter.size()});
      size += parameter.size();
    }
  }
  memory_ = {};
  memory_ = arena.take<float>(size, Use::staging);
}

std::span<float> ErrorFeedback::of(std::size_t unit, std::size_t parameter) const {
  const Range& range = ranges_[unit][parameter];
  return memory_.span().subspan(range.begin, range.count);
}

void ErrorFeedback::add_to(const Bucket& bucket, std::span<float> data) const {
  for (const Place& place : bucket.places) {
    const auto memory = of(place.unit, place.parameter);
    for (std::size_t i = 0; i < place.size; ++i) data[place.offset + i] += memory[i];
  }
}

void ErrorFeedback::keep(const Bucket& bucket, std::span<const float> error) {
  for (const Place& place : bucket.places) {
    const auto memory = of(place.unit, place.parameter);
    for (std::size_t i = 0; i < place.size; ++i) {
      const float e = error[place.offset + i];
      memory[i] = std::isfinite(e) ? e : memory[i];
    }
  }
}

void ErrorFeedback::add(const Bucket& bucket, const Range& range, std::span<const float> error) {
  for_each_place(bucket, range, [&](const Place& place, const Range& part) {
    const auto memory = of(place.unit, place.parameter);
    for (std::size_t i = 0; i < part.count; ++i) {
      const float e = error[part.begin - range.begin + i];
      memory[part.begin - place.offset + i] += std::isfinite(e) ? e : 0;
    }
  });
}

}  // namespace training
