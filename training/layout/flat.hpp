// SPDX-License-Identifier: Apache-2.0
// Where parameters lie: one behind another in buckets, in the order in which backward passes
// complete their gradients. A bucket is reduced, gathered and scattered as one.
//
// Where ranks share a bucket (ZeRO), rank r of n owns its r-th part of n: then one reduce-scatter
// and one all-gather for each bucket move exactly what is needed (FSDP, Zhao et al. 2023, arXiv
// 2304.11277, section 3.2).
#pragma once
#include <cstddef>
#include <vector>

#include "../model/unit.hpp"

namespace training {

struct Place {
  std::size_t unit, parameter;  ///< the parameter's number in its unit
  std::size_t bucket, offset;   ///< in elements, from the bucket's begin
  std::size_t size;
};

struct Bucket {
  std::size_t used = 0;       ///< elements of its parameters
  std::size_t size = 0;       ///< and padding: a multiple of the alignment
  std::vector<Place> places;  ///< in the order of offsets
};

struct BucketLimits {
  std::size_t first_bytes = std::size_t{1} << 20U;  ///< PyTorch's: the first bucket starts early
  std::size_t bytes = std::size_t{25} << 20U;
  std::size_t element_bytes = 4;
};

/// Parameters begin at multiples of this many elements (64 bytes of f32), so that a kernel's blocks
/// of 16 elements are the same whatever the layout.
inline constexpr std::size_t kParameterAlignment = 16;

class FlatLayout {
 public:
  using Sizes = std::vector<std::vector<std::size_t>>;  ///< of parameters: [unit][parameter]
  using Order = std::vector<std::pair<std::size_t, std::size_t>>;  ///< unit and parameter

  /// From the last parameter of the last unit to the first of the first: about the order in which
  /// gradients become ready.
  static Order backward_order(const Sizes& sizes);

  /// Buckets filled in this order, and closed when they reach their limit, as PyTorch's DDP does
  /// (Li et al. 2020, arXiv 2006.15704, section 3.2.3). A bucket's size is a multiple of
  /// `alignment`.
  static FlatLayout by_bytes(const Sizes& sizes, const Order& order, const BucketLimits& limits,
                             std::size_t alignment);
  /// One bucket for each unit, from the last to the first.
  static FlatLayout by_unit(const Sizes& sizes, std::size_t alignment);

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
  [[nodiscard]] const Place& place(std::size_t unit, std::size_t parameter) const {
    const auto [bucket, number] = places_[unit][parameter];
    return buckets_[bucket].places[number];
  }
  [[nodiscard]] std::size_t units() const { return places_.size(); }
  [[nodiscard]] std::size_t parameters(std::size_t unit) const { return places_[unit].size(); }
  /// Where a bucket begins if all lie one behind another, in elements.
  [[nodiscard]] std::size_t begin(std::size_t bucket) const { return begins_[bucket]; }
  [[nodiscard]] std::size_t size() const { return begins_.back(); }  ///< with padding
  [[nodiscard]] std::size_t largest() const;                         ///< of the buckets' sizes

 private:
  explicit FlatLayout(const Sizes& sizes);
  void add(std::size_t unit, std::size_t parameter, std::size_t size);
  void close(std::size_t alignment);

  std::vector<Bucket> buckets_;
  std::vector<std::size_t> begins_ = {0};  ///< and the end of the last
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> places_;  ///< bucket and number
};

/// The sizes of all parameters.
template <class Real>
FlatLayout::Sizes sizes_of(const Units<Real>& units) {
  FlatLayout::Sizes sizes;
  for (const auto& unit : units) {
    sizes.emplace_back();
    for (const ParameterInfo& parameter : unit->parameters())
      sizes.back().push_back(parameter.size());
  }
  return sizes;
}

/// Copies all parameters from one layout of the same model to another; `bytes` is an element's.
void move_elements(const FlatLayout& from_layout, const void* from, const FlatLayout& to_layout,
                   void* to, std::size_t bytes = sizeof(float));

}  // namespace training
