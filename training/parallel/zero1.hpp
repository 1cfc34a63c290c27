// SPDX-License-Identifier: Apache-2.0
// ZeRO, stage 1: each rank keeps the optimizer's states of its part only (Rajbhandari et al. 2020,
// arXiv 1910.02054, section 5.1).
//
// Rank r of n owns the r-th part of every bucket. At the end of a step one reduce-scatter for each
// bucket gives it the sums of what it owns; it updates these weights, and an all-gather brings all
// weights to all ranks (replicated_weights.hpp). Both together send 2 P (n - 1) / n elements: as
// much as an all-reduce. With K bytes of states for each parameter, memory is (2 + 2 + K / n) P
// instead of (2 + 2 + K) P bytes where weights and gradients have 16 bits.
//
// A rank that owned one contiguous part of the whole model, as in the paper, would need an
// all-reduce or n reductions in place of the reduce-scatter: buckets do not end where parts do.
#pragma once
#include "bucketed_gradients.hpp"

namespace training {

class Zero1Gradients final : public BucketedGradients {
 public:
  using BucketedGradients::BucketedGradients;

 protected:
  /// In place: the rank's part of the bucket becomes the sum, the other parts stay as they are.
  Pending start(std::size_t bucket, std::byte* data) override {
    const std::size_t count = layout().buckets()[bucket].size / traffic().ranks();
    return traffic().reduce_scatter(data, data + sum_begin(bucket), count, format());
  }
  [[nodiscard]] std::size_t sum_begin(std::size_t bucket) const override {
    return layout().buckets()[bucket].size / traffic().ranks() * traffic().rank() *
           bytes_of(format());
  }
};

}  // namespace training
