// SPDX-License-Identifier: Apache-2.0
// Partners of tensor parallelism over a communicator (Shoeybi et al. 2019, Megatron-LM, arXiv
// 1909.08053, section 3): what the model's units ask of them, and how much that was.
//
// For each micro-batch of b rows with C channels, each block asks for 4 sums of b C elements: 2 in
// the forward pass, 2 in the backward pass. The embedding's forward pass and the head's backward
// pass ask for one more each, the loss for a maximum of b and a sum of 2 b elements.
#pragma once
#include <collectives/collectives.hpp>

#include "../model/unit.hpp"

namespace training {

/// Operations, and the elements that they reduced.
struct Asked {
  std::size_t operations = 0, elements = 0;
};

template <class Real>
class TensorPartners final : public Partners<Real> {
 public:
  /// The communicator of the ranks that share one model; it must outlive this.
  explicit TensorPartners(collectives::Communicator& communicator);
  std::size_t rank() const override { return rank_; }
  std::size_t ranks() const override { return ranks_; }
  void sum(std::span<Real> values) override;
  void maximum(std::span<Real> values) override;

  [[nodiscard]] const Asked& sums() const { return sums_; }
  [[nodiscard]] const Asked& maxima() const { return maxima_; }

 private:
  void reduce(std::span<Real> values, coll_op_t op, Asked& asked);

  collectives::Communicator& communicator_;
  std::size_t rank_, ranks_;
  Asked sums_, maxima_;
};

}  // namespace training
