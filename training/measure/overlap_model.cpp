// SPDX-License-Identifier: Apache-2.0
// The recurrences of the model.
#include "overlap_model.hpp"

#include <algorithm>
#include <cmath>

namespace training {

Cost fit_cost(std::span<const Sample> samples) {
  // Least squares of (alpha + beta x - y) / y: weights 1 / y^2.
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (const Sample& sample : samples) {
    const double weight = 1 / (sample.seconds * sample.seconds);
    w += weight;
    wx += weight * sample.bytes;
    wy += weight * sample.seconds;
    wxx += weight * sample.bytes * sample.bytes;
    wxy += weight * sample.bytes * sample.seconds;
  }
  const double determinant = w * wxx - wx * wx;  // 0: all have the same size
  const Cost best{(wxx * wy - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant};
  if (!(determinant > 1e-12 * w * wxx) || best.beta < 0) return {wy / w, 0};
  if (best.alpha < 0) return {0, wxy / wxx};
  return best;
}

std::vector<double> bucket_ends(std::span<const ReadyBucket> buckets, const Cost& sum) {
  std::vector<double> ends;
  double end = 0;
  for (const ReadyBucket& bucket : buckets) {
    end = std::max(bucket.ready, end) + sum.of(bucket.bytes);
    ends.push_back(end);
  }
  return ends;
}

StepTime overlapped_step(const ComputeTimes& compute, std::span<const ReadyBucket> buckets,
                         const Cost& sum) {
  const double last = buckets.empty() ? 0 : bucket_ends(buckets, sum).back();
  return {compute.forward + std::max(compute.backward, last) + compute.optimizer,
          std::max(0.0, last - compute.backward)};
}

StepTime step_without_overlap(const ComputeTimes& compute, std::span<const ReadyBucket> buckets,
                              const Cost& sum) {
  double exposed = 0;
  for (const ReadyBucket& bucket : buckets) exposed += sum.of(bucket.bytes);
  return {compute.forward + compute.backward + exposed + compute.optimizer, exposed};
}

StepTime zero3_step(std::span<const UnitTimes> units, std::size_t prefetch) {
  struct UnitPass {
    const UnitTimes& unit;
    bool forward;
  };
  std::vector<UnitPass> uses;
  for (const UnitTimes& unit : units) uses.push_back({unit, true});
  for (std::size_t i = units.size(); i-- > 0;) uses.push_back({units[i], false});

  double now = 0, compute = 0, free = 0;  // `free`: when the operations issued so far have ended
  std::vector<double> gathered, scattered;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto& [unit, forward] = uses[i];
    while (gathered.size() < std::min(uses.size(), i + 1 + prefetch))
      gathered.push_back(free = std::max(free, now) + uses[gathered.size()].unit.gather);
    now = std::max(now, gathered[i]);
    if (!forward && scattered.size() >= 2) now = std::max(now, scattered[scattered.size() - 2]);
    const double pass = forward ? unit.forward : unit.backward;
    now += pass;
    compute += pass;
    if (!forward) scattered.push_back(free = std::max(free, now) + unit.scatter);
  }
  now = std::max(now, free);
  return {now, now - compute};
}

}  // namespace training
