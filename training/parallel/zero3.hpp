// SPDX-License-Identifier: Apache-2.0
// ZeRO, stage 3: each rank also keeps the weights of its part only (Rajbhandari et al. 2020, arXiv
// 1910.02054, section 5.3). Gradients are as in stage 2.
//
// A unit's weights are gathered just before its forward pass and again before its backward pass,
// and released after each. The gathering of the next units runs while a unit computes (prefetch).
// So with m micro-batches for each rank, a rank sends 3 m P (n - 1) / n elements in a step. Memory
// is (2 + 2 + K) P / n bytes and 1 + prefetch units, where weights have 16 bits.
#pragma once
#include <deque>
#include <vector>

#include "../layout/shard.hpp"
#include "group_traffic.hpp"
#include "unit_memory.hpp"
#include "weights.hpp"

namespace training {

class Zero3Weights final : public Weights {
 public:
  /// The layout has one bucket for each unit. `prefetch`: units that are gathered ahead.
  Zero3Weights(const FlatLayout& layout, Format format, std::size_t prefetch, Traffic& traffic,
               Arena& arena);
  void expect(std::span<const std::size_t> units) override;
  std::span<const float* const> take(std::size_t unit) override;
  void release(std::size_t unit) override;
  void* owned(std::size_t bucket) override;
  void updated(std::size_t /*bucket*/) override {}
  void settle() override {}

 private:
  /// The weights of a unit, gathered or on their way.
  struct Slot {
    Block<std::byte> data;
    Pending pending;
  };
  void gather_ahead();

  const FlatLayout& layout_;
  Format format_;
  Shard owned_;
  Traffic& traffic_;
  Block<std::byte> shards_;
  std::vector<Slot> slots_;  ///< used in turns
  UnitMemory unit_;
  std::deque<std::size_t> expected_;  ///< units: first those in slots
  std::size_t gathered_ = 0;          ///< how many of them are in slots
  std::size_t first_slot_ = 0;        ///< of the first expected unit
};

}  // namespace training
