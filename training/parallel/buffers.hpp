// SPDX-License-Identifier: Apache-2.0
// The buffers of this rank's units, and their broadcast (Li et al. 2020, arXiv 2006.15704, section
// 4.1): before a step, and before a validation, all data-parallel ranks take rank 0's.
//
// All buffers lie in one block: one broadcast of sum(sizes) elements of f32.
#pragma once
#include <span>
#include <vector>

#include "../memory/arena.hpp"
#include "../model/unit.hpp"
#include "group_traffic.hpp"

namespace training {

class Buffers {
 public:
  Buffers(const Units<float>& units, Traffic& traffic, Arena& arena);

  /// Pointers to the buffers of a unit.
  [[nodiscard]] std::span<float* const> of(std::size_t unit) const { return pointers_[unit]; }
  /// Those of all units, one behind another.
  [[nodiscard]] std::span<float> all() const { return block_.span(); }
  /// All ranks call it; without buffers it does nothing.
  void broadcast();

 private:
  Traffic& traffic_;
  Block<float> block_;
  std::vector<std::vector<float*>> pointers_;  ///< [unit][buffer]
};

}  // namespace training
