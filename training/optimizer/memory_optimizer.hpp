// SPDX-License-Identifier: Apache-2.0
// AdamW with its states in memory, beside the weights.
#pragma once
#include "optimizer_states.hpp"

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
  Owned owned_;
  OptimizerStates states_;
};

}  // namespace training
