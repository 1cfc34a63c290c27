// SPDX-License-Identifier: Apache-2.0
// Memory for the parameters of one unit in f32, where they are stored with 16 bits.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "../layout/flat.hpp"
#include "../math/number_format.hpp"
#include "../memory/arena.hpp"

namespace training {

class UnitMemory {
 public:
  /// With f32 it needs no memory.
  UnitMemory(const FlatLayout& layout, Format format, Arena& arena) : format_(format) {
    if (format == Format::f32) return;
    std::size_t most = 0;
    for (std::size_t unit = 0; unit < layout.units(); ++unit) {
      std::size_t size = 0;
      for (std::size_t i = 0; i < layout.parameters(unit); ++i) size += layout.place(unit, i).size;
      most = std::max(most, size);
    }
    memory_ = arena.take<float>(most, Use::staging);
  }

  /// Pointers to the unit's parameters: to memory here, or with f32 to where they are stored, as
  /// stored(place) says.
  template <class Stored>
  std::span<float* const> point(const FlatLayout& layout, std::size_t unit, Stored stored) {
    pointers_.clear();
    float* here = memory_.data();
    for (std::size_t i = 0; i < layout.parameters(unit); ++i) {
      const Place& place = layout.place(unit, i);
      if (format_ == Format::f32) {
        pointers_.push_back(reinterpret_cast<float*>(stored(place)));
      } else {
        pointers_.push_back(here);
        here += place.size;
      }
    }
    return pointers_;
  }
  /// The same, to read what is stored.
  template <class Stored>
  std::span<const float* const> read(const FlatLayout& layout, std::size_t unit, Stored stored) {
    point(layout, unit, stored);
    if (format_ != Format::f32) {
      for (std::size_t i = 0; i < pointers_.size(); ++i) {
        const Place& place = layout.place(unit, i);
        widen(format_, place.size, stored(place), pointers_[i]);
      }
    }
    return {pointers_.data(), pointers_.size()};
  }
  [[nodiscard]] std::span<float* const> pointers() const { return pointers_; }

 private:
  Format format_;
  Block<float> memory_;
  std::vector<float*> pointers_;
};

}  // namespace training
