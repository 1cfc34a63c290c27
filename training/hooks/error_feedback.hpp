// SPDX-License-Identifier: Apache-2.0
// Error feedback (Seide et al. 2014, "1-bit stochastic gradient descent", Interspeech, section 3;
// Karimireddy et al. 2019, arXiv 1901.09847, algorithm 2): what compression loses of a gradient is
// added to the next one, so that every part of it arrives at last.
//
//   p = g + e        send C(p)        e = p - C(p)
//
// At any time the sum of what was sent and of the memories e is the sum of all gradients. Memories
// are kept by parameter, 4 bytes for each element: buckets may be formed anew at any time. They are
// not in checkpoints: a run that goes on from one begins with e = 0. Of a parameter that no
// micro-batch of a step used, the step leaves out what was sent of its memory.
#pragma once
#include <vector>

#include "../layout/shard.hpp"
#include "../memory/arena.hpp"

namespace training {

class ErrorFeedback {
 public:
  /// Memories of 0 for all parameters.
  void begin(const Units<float>& units, Arena& arena);

  /// data += e, for all parameters of a bucket.
  void add_to(const Bucket& bucket, std::span<float> data) const;
  /// e = error. Where an error is not finite, e stays: the step will be skipped.
  void keep(const Bucket& bucket, std::span<const float> error);
  /// e += error, for the parameters in a part of a bucket; so for errors that are finite.
  void add(const Bucket& bucket, const Range& range, std::span<const float> error);

  [[nodiscard]] std::span<float> of(std::size_t unit, std::size_t parameter) const;

 private:
  std::vector<std::vector<Range>> ranges_;  ///< [unit][parameter], in memory_
  Block<float> memory_;
};

}  // namespace training
