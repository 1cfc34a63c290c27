// SPDX-License-Identifier: Apache-2.0
// The states of an optimizer in memory: arrays of the owned parts of all buckets, one behind
// another.
#pragma once
#include "optimizer.hpp"

namespace training {

class OptimizerStates {
 public:
  OptimizerStates(const FlatLayout& layout, Shard shard, bool keeps_weights, Arena& arena);

  [[nodiscard]] bool keeps_weights() const { return weights_.size() > 0; }
  /// Of the owned part of a bucket.
  [[nodiscard]] std::span<float> of(std::size_t bucket, State state) const;
  void read(std::size_t bucket, State state, std::size_t first, std::span<float> to) const;
  void write(std::size_t bucket, State state, std::size_t first, std::span<const float> from) const;
  void move_to(const FlatLayout& layout);

 private:
  [[nodiscard]] const Block<float>& block(State state) const;

  const FlatLayout* layout_;
  Shard shard_;
  Arena* arena_;
  Block<float> weights_, first_, second_;
};

}  // namespace training
