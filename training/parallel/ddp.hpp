// SPDX-License-Identifier: Apache-2.0
// Data parallelism as PyTorch's DistributedDataParallel does it (Li et al. 2020, arXiv 2006.15704,
// section 3).
//
// Every rank has all weights, gradients and states, and computes its own micro-batches. Buckets of
// gradients are summed over the ranks by all-reduce while the backward pass goes on. Each rank
// sends 2 P (n - 1) / n elements in a step, for P parameters and n ranks; memory does not shrink
// with n.
#pragma once
#include "bucketed_gradients.hpp"

namespace training {

/// A communication hook: replaces a bucket's all-reduce, for instance by one of fewer bytes
/// (hooks/).
class Hook {
 public:
  Hook() = default;
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  virtual ~Hook() = default;

  /// Before training: `units` are those whose gradients will come, numbered as in layouts.
  virtual void begin(const Units<float>& /*units*/) {}
  /// A bucket of gradients in f32, with `layout` and `index` to find its parameters. Parameters may
  /// be in other buckets after a step: what a hook remembers belongs to parameters, not to buckets.
  struct GradBucket {
    const FlatLayout& layout;
    std::size_t index;
    std::span<float> data;
    [[nodiscard]] const Bucket& bucket() const { return layout.buckets()[index]; }
    [[nodiscard]] bool is_last() const { return index + 1 == layout.buckets().size(); }
  };
  /// Starts the sum over ranks; all ranks start the same buckets in the same order, from the first.
  virtual Pending start(const GradBucket& bucket, Traffic& traffic) = 0;
  /// What start() began has ended: leaves the sum in the bucket. May communicate, and wait.
  virtual void finish(const GradBucket& bucket, Traffic& traffic) = 0;
};

class DdpGradients final : public BucketedGradients {
 public:
  /// A hook needs f32; null: none.
  DdpGradients(const FlatLayout& layout, Format format, std::size_t most_leaves, Traffic& traffic,
               Arena& arena, Hook* hook = nullptr)
      : BucketedGradients(layout, format, most_leaves, traffic, arena), hook_(hook) {}
  /// PyTorch forms the buckets anew in the order in which the first step's gradients became ready.
  void move_to(const FlatLayout& layout) { set_layout(layout); }

 protected:
  Pending start(std::size_t bucket, std::byte* data) override;
  void finish_bucket(std::size_t bucket, std::byte* data) override;

 private:
  [[nodiscard]] Hook::GradBucket view(std::size_t bucket, std::byte* data) const;
  Hook* hook_;
};

/// Rank 0's order on all ranks: in another order of buckets they would not meet.
FlatLayout::Order agree_on_order(const FlatLayout::Order& own, collectives::Communicator& comm);

}  // namespace training
