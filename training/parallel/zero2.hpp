// SPDX-License-Identifier: Apache-2.0
// ZeRO, stage 2: each rank also keeps the gradients of its part only (Rajbhandari et al. 2020,
// arXiv 1910.02054, section 5.2).
//
// A unit's gradients are written to one of two buffers. When the unit's backward pass is done, a
// reduce-scatter brings each rank the sum of its part, and the buffer serves another unit. With m
// micro-batches for each rank, a rank sends (m + 1) P (n - 1) / n elements in a step, all-gather of
// weights included. It keeps P / n elements of gradients for each level of their tree
// (leaf_tree.hpp; one if m is 1), and two buffers of the largest unit.
//
// Micro-batches are dealt out in turns, because all ranks reduce together: micro-batch j n + r is
// rank r's. The sums over j follow the same tree as in the other stages (leaf_tree.hpp).
#pragma once
#include <array>
#include <vector>

#include "../layout/shard.hpp"
#include "../math/number_format.hpp"
#include "../memory/arena.hpp"
#include "gradients.hpp"
#include "group_traffic.hpp"
#include "unit_memory.hpp"

namespace training {

class Zero2Gradients final : public Gradients {
 public:
  /// The layout has one bucket for each unit. `most_leaves`: of one step, on one rank.
  Zero2Gradients(const FlatLayout& layout, Format format, std::size_t most_leaves, Traffic& traffic,
                 Arena& arena);
  /// All ranks give the same number. A rank that has no data for one ends its units alone.
  void begin(std::size_t leaves) override;
  std::span<float* const> take(std::size_t unit) override;
  void ready(std::size_t unit, std::size_t parameter) override;
  void end_unit(std::size_t unit) override;
  void end_leaf() override { ++leaf_; }
  void finish() override;
  const void* sum(std::size_t bucket) override;

 private:
  /// A unit's gradients on their way.
  struct Buffer {
    Block<std::byte> data;
    Pending pending;
    std::size_t bucket = 0, leaf = 0;
  };
  [[nodiscard]] std::byte* shard(std::size_t level, std::size_t bucket) const;
  Buffer& current() { return buffers_[used_ % buffers_.size()]; }
  void settle(Buffer& buffer);

  const FlatLayout& layout_;
  Format format_;
  Shard owned_;
  Traffic& traffic_;
  std::vector<Block<std::byte>> levels_;  ///< what this rank owns, for each level of the tree
  std::array<Buffer, 2> buffers_;
  std::size_t used_ = 0;  ///< buffers so far: the next is used_ % 2
  UnitMemory unit_;
  std::size_t leaf_ = 0, leaves_ = 0;
  std::vector<bool> is_ready_;  ///< parameters of the unit at work
};

}  // namespace training
