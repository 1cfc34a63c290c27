// SPDX-License-Identifier: Apache-2.0
// Sends the k largest numbers of each bucket, with their places, and keeps the others for later
// (Aji, Heafield 2017, arXiv 1704.05021, section 3; with error feedback as Stich et al. 2018, arXiv
// 1809.07599, algorithm 1).
//
//   p = g + e        all-gather k pairs (place, p)        e = p where it was not sent, else 0
//
// k = ceil(share * B) for a bucket of B elements, 1 % unless told. Each rank's pairs are 8 k bytes,
// which all-gather brings to n - 1 others: 8 k (n - 1). The all-reduce of all elements has each
// rank send (n - 1) / n of 8 B. So top-k sends less as long as n k < B, with 1 % on fewer than 100
// ranks; from n k = B on it sends more.
#pragma once
#include "../parallel/ddp.hpp"
#include "bucket_memory.hpp"
#include "error_feedback.hpp"

namespace training {

class TopKHook final : public Hook {
 public:
  static constexpr double kShare = 0.01;
  /// 0 < share <= 1.
  TopKHook(double share, Arena& arena) : share_(share), arena_(arena), wire_(arena) {}
  void begin(const Units<float>& units) override { feedback_.begin(units, arena_); }
  Pending start(const GradBucket& bucket, Traffic& traffic) override;
  void finish(const GradBucket& bucket, Traffic& traffic) override;
  [[nodiscard]] const ErrorFeedback& feedback() const { return feedback_; }
  /// k, for a bucket of `size` elements.
  [[nodiscard]] std::size_t count(std::size_t size) const;

 private:
  double share_;
  Arena& arena_;
  ErrorFeedback feedback_;
  BucketMemory wire_;
  std::vector<std::uint32_t> sizes_;
};

}  // namespace training
