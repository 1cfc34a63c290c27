// SPDX-License-Identifier: Apache-2.0
// How long a step takes if sums of gradients run while the backward pass goes on (Li et al. 2020,
// arXiv 2006.15704, section 3.2.3).
//
// Bucket k of S_k bytes is ready r_k after the backward pass began. Sums run one after another,
// each for alpha + beta S_k (Hockney 1994, "The communication challenge for MPP", Parallel
// Computing 20):
//   c_k    = max(r_k, c_{k-1}) + alpha + beta S_k,
//   T_step = T_forward + max(T_backward, c_K) + T_optimizer,   exposed = max(0, c_K - T_backward).
// Without overlap each bucket delays the backward pass: exposed = sum of alpha + beta S_k.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace training {

/// What an operation takes, by its bytes; in seconds.
struct Cost {
  double alpha = 0, beta = 0;
  [[nodiscard]] double of(double bytes) const { return alpha + beta * bytes; }
};

/// A measurement of an operation.
struct Sample {
  double bytes = 0, seconds = 0;
};

/// The cost that fits best: least squares of relative errors, else the largest operations alone
/// would count. Neither alpha nor beta is negative.
Cost fit_cost(std::span<const Sample> samples);

struct ReadyBucket {
  double ready = 0;  ///< seconds after the backward pass began
  double bytes = 0;
};

/// c_k of each bucket.
std::vector<double> bucket_ends(std::span<const ReadyBucket> buckets, const Cost& sum);

/// Of computation alone, in seconds.
struct ComputeTimes {
  double forward = 0, backward = 0, optimizer = 0;
};
struct StepTime {
  double step = 0, exposed = 0;
};
StepTime overlapped_step(const ComputeTimes& compute, std::span<const ReadyBucket> buckets,
                         const Cost& sum);
StepTime step_without_overlap(const ComputeTimes& compute, std::span<const ReadyBucket> buckets,
                              const Cost& sum);

/// A unit in ZeRO-3: what its passes and its operations take, in seconds.
struct UnitTimes {
  double forward = 0, backward = 0, gather = 0, scatter = 0;
};
/// One micro-batch of ZeRO-3 (zero3.hpp, zero2.hpp): `prefetch` units are gathered ahead,
/// operations run one after another, and two buffers hold gradients on their way. Without the
/// optimizer.
StepTime zero3_step(std::span<const UnitTimes> units, std::size_t prefetch);

}  // namespace training
