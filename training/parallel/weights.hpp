// SPDX-License-Identifier: Apache-2.0
// Where the weights are: whole on every rank (replicated_weights.hpp), or a part on each, gathered
// unit by unit (zero3.hpp).
#pragma once
#include <cstddef>
#include <span>

namespace training {

class Weights {
 public:
  Weights() = default;
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  virtual ~Weights() = default;

  /// The units that will be used from now on, in this order; those announced earlier come first.
  virtual void expect(std::span<const std::size_t> units) = 0;
  /// The weights of the next expected unit, in f32; waits until they are there.
  virtual std::span<const float* const> take(std::size_t unit) = 0;
  /// The unit was used: its pointers are no longer valid.
  virtual void release(std::size_t unit) = 0;

  /// What this rank owns of a bucket, in the weights' format: for the optimizer to write, when no
  /// unit is in use.
  virtual void* owned(std::size_t bucket) = 0;
  /// The owned part has new values.
  virtual void updated(std::size_t bucket) = 0;
  /// Waits until no weights are on their way to other ranks.
  virtual void settle() = 0;
};

}  // namespace training
