// SPDX-License-Identifier: Apache-2.0
// AdamW with its states in memory, beside the weights.
#pragma once
#include "optimizer.hpp"

namespace training {

class MemoryOptimizer final : public Optimizer {
 public:
  MemoryOptimizer(Owned owned, Arena& arena);
  void begin(std::size_t bucket, std::span<const float> weights) override;
  void update(std::size_t bucket, const Update& update, const void* gradients,
              void* weights) override;
  void finish(std::size_t /*bucket*/) override {}
  void read(std::size_t bucket, State state, std::size_t first, std::span<float> to) override;
  void write(std::size_t bucket, State state, std::size_t first,
             std::span<const float> from) override;
  void move_to(const FlatLayout& layout) override;

 private:
  /// All buckets' owned parts, one behind another.
  struct States {
    Block<float> weights, first, second;
  };
  [[nodiscard]] States take(const FlatLayout& layout) const;
  [[nodiscard]] std::span<float> of(std::size_t bucket, State state) const;

  Owned owned_;
  Arena& arena_;
  States states_;
};

}  // namespace training
