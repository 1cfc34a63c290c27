// SPDX-License-Identifier: Apache-2.0
// How gradients become sums over micro-batches and ranks: by all-reduce (ddp.hpp), by
// reduce-scatter at the end of a step (zero1.hpp), or during each backward pass (zero2.hpp).
#pragma once
#include <cstddef>
#include <span>

namespace training {

class Gradients {
 public:
  Gradients() = default;
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;
  virtual ~Gradients() = default;

  /// A step begins, in which this rank computes `leaves` micro-batches. All ranks call it, also one
  /// that has none.
  virtual void begin(std::size_t leaves) = 0;
  /// Where the backward pass of the unit writes its gradients, in f32.
  virtual std::span<float* const> take(std::size_t unit) = 0;
  /// A gradient of the unit is complete.
  virtual void ready(std::size_t unit, std::size_t parameter) = 0;
  /// The unit is done, or was left out. Parameters that were not ready count as 0.
  virtual void end_unit(std::size_t unit) = 0;
  /// The micro-batch is done: all units are.
  virtual void end_leaf() = 0;
  /// The last micro-batch is done; sums may still be on their way.
  virtual void finish() = 0;
  /// The sum of what this rank owns of a bucket, in the gradients' format; waits for it. Valid
  /// until the next step begins.
  virtual const void* sum(std::size_t bucket) = 0;
};

}  // namespace training
