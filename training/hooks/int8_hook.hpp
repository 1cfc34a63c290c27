// SPDX-License-Identifier: Apache-2.0
// Sums gradients in 8 bits, with error feedback in both directions.
//
//   reduce-scatter:  all-to-all of coded g + e: rank r gets part r of all ranks, and sums it in f32
//   all-gather:      rank r codes its sum once more; all ranks decode the same bytes
//
// What the second coding loses, rank r adds to its own memory: it comes with rank r's next gradient
// (Tang et al. 2019, arXiv 1905.05957, algorithm 1, "DoubleSqueeze", has a memory of its own for
// it). Each direction sends, for a bucket of B elements and n ranks, (n - 1) parts of B / n + 4 *
// ceil(B / (256 n)) bytes: 1 + 4/256 for each element in place of 4. Blocks: int8_blocks.hpp.
// Memory: 4 bytes for each parameter, and the codes of each bucket twice.
#pragma once
#include "../parallel/ddp.hpp"
#include "bucket_memory.hpp"
#include "error_feedback.hpp"

namespace training {

class Int8Hook final : public Hook {
 public:
  explicit Int8Hook(Arena& arena) : arena_(arena), wire_(arena) {}
  void begin(const Units<float>& units) override { feedback_.begin(units, arena_); }
  Pending start(const GradBucket& bucket, Traffic& traffic) override;
  void finish(const GradBucket& bucket, Traffic& traffic) override;
  [[nodiscard]] const ErrorFeedback& feedback() const { return feedback_; }

 private:
  Arena& arena_;
  ErrorFeedback feedback_;
  BucketMemory wire_;
};

}  // namespace training
