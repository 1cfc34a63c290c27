// SPDX-License-Identifier: Apache-2.0
// Sums gradients as numbers of 16 bits: sum = widen(all-reduce(narrow(g))), each addition rounded.
//
// 2 bytes on the wire for each element in place of 4. As PyTorch's bf16_compress_hook (Li et al.
// 2020, arXiv 2006.15704, section 3.2.3, describes hooks). f16 has three bits more than bf16, but
// sums above 65,504 are infinite, and the step is skipped; gradients below 2^-25 become 0.
#pragma once
#include "../parallel/ddp.hpp"
#include "bucket_memory.hpp"

namespace training {

class HalfHook final : public Hook {
 public:
  HalfHook(Format format, Arena& arena) : format_(format), wire_(arena) {}
  void begin(const Units<float>& /*units*/) override {}
  Pending start(const GradBucket& bucket, Traffic& traffic) override;
  void finish(const GradBucket& bucket, Traffic& traffic) override;

 private:
  Format format_;
  BucketMemory wire_;
};

}  // namespace training
