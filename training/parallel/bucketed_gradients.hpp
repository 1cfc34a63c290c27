// SPDX-License-Identifier: Apache-2.0
// Gradients that stay whole on every rank until the last micro-batch of a step: what data
// parallelism and ZeRO-1 have in common.
//
// A gradient is written where its bucket lies. When the last gradient of a bucket is ready in the
// step's last micro-batch, the bucket's sum is on its way while earlier units still compute.
// Buckets start in their order on all ranks, whatever became ready first: else ranks would start
// different operations (Li et al. 2020, arXiv 2006.15704, section 3.2.3). Earlier micro-batches
// send nothing: PyTorch calls this no_sync.
#pragma once
#include <vector>

#include "../layout/flat.hpp"
#include "../math/number_format.hpp"
#include "../memory/arena.hpp"
#include "gradients.hpp"
#include "group_traffic.hpp"
#include "unit_memory.hpp"

namespace training {

class BucketedGradients : public Gradients {
 public:
  /// `most_leaves`: of one step, on one rank.
  BucketedGradients(const FlatLayout& layout, Format format, std::size_t most_leaves,
                    Traffic& traffic, Arena& arena);
  void begin(std::size_t leaves) override;
  std::span<float* const> take(std::size_t unit) override;
  void ready(std::size_t unit, std::size_t parameter) override;
  void end_unit(std::size_t unit) override;
  void end_leaf() override;
  void finish() override;
  const void* sum(std::size_t bucket) override;

  /// In which order parameters became ready in the step's last micro-batch.
  [[nodiscard]] const FlatLayout::Order& ready_order() const { return ready_order_; }

 protected:
  /// Starts the sum over ranks of a bucket, in place.
  virtual Pending start(std::size_t bucket, std::byte* data) = 0;
  /// What is left to do once that has ended.
  virtual void finish_bucket(std::size_t /*bucket*/, std::byte* /*data*/) {}
  /// The part of a bucket that has the sum afterwards, in bytes from its begin.
  [[nodiscard]] virtual std::size_t sum_begin(std::size_t /*bucket*/) const { return 0; }
  [[nodiscard]] const FlatLayout& layout() const { return *layout_; }
  [[nodiscard]] Format format() const { return format_; }
  [[nodiscard]] Traffic& traffic() const { return traffic_; }
  /// The buckets are others from now on; no step is going on.
  void set_layout(const FlatLayout& layout);

 private:
  [[nodiscard]] std::byte* data(std::size_t level, std::size_t bucket) const;
  [[nodiscard]] std::byte* data(std::size_t level, const Place& place) const;
  void begin_leaf();
  void complete(std::size_t bucket);

  const FlatLayout* layout_;
  Format format_;
  Traffic& traffic_;
  Arena& arena_;
  std::vector<Block<std::byte>> levels_;  ///< of the tree of micro-batches (leaf_tree.hpp)
  UnitMemory unit_;
  std::size_t leaf_ = 0, leaves_ = 0;
  std::vector<std::vector<bool>> is_ready_;  ///< [unit][parameter], in this micro-batch
  std::vector<std::size_t> missing_;         ///< gradients of each bucket that are not ready
  std::size_t next_ = 0;                     ///< the bucket that starts next
  std::vector<Pending> pending_;             ///< of each bucket
  std::vector<bool> is_summed_;              ///< [bucket]
  FlatLayout::Order ready_order_;
};

}  // namespace training
