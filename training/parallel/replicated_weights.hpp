// SPDX-License-Identifier: Apache-2.0
// All weights on every rank: data parallelism, and ZeRO-1 and 2.
//
// Where each rank updates only its part of a bucket, an all-gather brings it to the others. It runs
// on while the next buckets are updated, and while the next forward pass computes units whose
// weights are there.
#pragma once
#include <vector>

#include "../layout/shard.hpp"
#include "group_traffic.hpp"
#include "unit_memory.hpp"
#include "weights.hpp"

namespace training {

class ReplicatedWeights final : public Weights {
 public:
  /// `owned`: the part of each bucket that this rank updates.
  ReplicatedWeights(const FlatLayout& layout, Format format, Shard owned, Traffic& traffic,
                    Arena& arena);
  void expect(std::span<const std::size_t> /*units*/) override {}
  std::span<const float* const> take(std::size_t unit) override;
  void release(std::size_t /*unit*/) override {}
  void* owned(std::size_t bucket) override;
  void updated(std::size_t bucket) override;
  void settle() override {
    for (Pending& pending : pending_) traffic_.wait(pending);
  }
  /// The buckets are others from now on.
  void move_to(const FlatLayout& layout);

 private:
  [[nodiscard]] std::byte* data(std::size_t bucket) const {
    return memory_.data() + layout_->begin(bucket) * bytes_of(format_);
  }

  const FlatLayout* layout_;
  Format format_;
  Shard owned_;
  Traffic& traffic_;
  Arena& arena_;
  Block<std::byte> memory_;
  UnitMemory unit_;
  std::vector<Pending> pending_;  ///< all-gathers
};

}  // namespace training
