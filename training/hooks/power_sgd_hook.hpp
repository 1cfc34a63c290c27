// SPDX-License-Identifier: Apache-2.0
// PowerSGD: sums gradients of matrices as products of rank r (Vogels et al. 2019, arXiv 1905.13727,
// algorithms 1 and 2). For a parameter of n rows and m columns:
//
//   M = g + e                     on each rank
//   P = all-reduce(M Q^T)         one step of the power method, from the last step's Q
//   P = orthonormalised P         low_rank.hpp
//   Q = P^T M,  e = M - P Q       on each rank: what its own Q does not say
//   Q = all-reduce(Q)             the sum of gradients is P Q, on all ranks with the same bits
//
// (P is kept as r x n and Q as r x m.) r (n + m) elements in place of n m are all-reduced, in two
// operations for each bucket. Vectors are sent as they are, and matrices with r (n + m) >= n m. The
// first steps are sent as they are, while gradients change too fast for the last step's Q (PyTorch:
// start_powerSGD_iter). Memory: e, and r m for each Q. The algorithm's means are sums here.
#pragma once
#include "../parallel/ddp.hpp"
#include "bucket_memory.hpp"
#include "error_feedback.hpp"

namespace training {

class PowerSgdHook final : public Hook {
 public:
  static constexpr std::size_t kPlainSteps = 10;
  /// The first `plain_steps` steps are not compressed.
  PowerSgdHook(std::size_t rank, std::size_t plain_steps, Arena& arena)
      : rank_(rank), plain_steps_(plain_steps), arena_(arena), wire_(arena) {}
  void begin(const Units<float>& units) override;
  Pending start(const GradBucket& bucket, Traffic& traffic) override;
  void finish(const GradBucket& bucket, Traffic& traffic) override;
  [[nodiscard]] const ErrorFeedback& feedback() const { return feedback_; }
  /// Is a parameter sent as a product?
  [[nodiscard]] bool compresses(const ParameterInfo& parameter) const {
    return rank_ * (parameter.rows + parameter.columns) < parameter.size();
  }

 private:
  /// A parameter as the algorithm sees it.
  struct Matrix {
    ParameterInfo info;
    bool compressed = false;
    Block<float> q;
    void set_first(std::size_t row) const;  ///< a row of q: random, the same on all ranks
  };
  [[nodiscard]] Matrix& matrix(const Place& place) {
    return matrices_[place.unit][place.parameter];
  }
  /// Elements on the wire of a bucket: of the P and of what is not compressed; of the Q.
  [[nodiscard]] std::size_t first_size(const Bucket& bucket);
  [[nodiscard]] std::size_t second_size(const Bucket& bucket);
  /// Keeps Q for the next step.
  void remember(const Matrix& of, const float* q);
  [[nodiscard]] bool is_plain() const { return step_ <= plain_steps_; }

  std::size_t rank_, plain_steps_, step_ = 0;  ///< step_: counted from 1, once one has begun
  Arena& arena_;
  ErrorFeedback feedback_;
  std::vector<std::vector<Matrix>> matrices_;  ///< [unit][parameter]
  BucketMemory wire_;
};

}  // namespace training
