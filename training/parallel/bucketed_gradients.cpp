// SPDX-License-Identifier: Apache-2.0
// Counts which gradients are ready, and starts buckets in their order.
#include "bucketed_gradients.hpp"

#include <cstring>

#include "../layout/leaf_tree.hpp"

namespace training {

BucketedGradients::BucketedGradients(const FlatLayout& layout, Format format,
                                     std::size_t most_leaves, Traffic& traffic, Arena& arena)
    : layout_(&layout),
      format_(format),
      traffic_(traffic),
      arena_(arena),
      unit_(layout, format, arena) {
  for (std::size_t level = 0; level < std::max<std::size_t>(levels_of(most_leaves), 1); ++level)
    levels_.push_back(arena_.take<std::byte>(layout.size() * bytes_of(format), Use::gradients));
  for (std::size_t unit = 0; unit < layout.units(); ++unit)
    is_ready_.emplace_back(layout.parameters(unit));
  set_layout(layout);
}

void BucketedGradients::set_layout(const FlatLayout& layout) {
  layout_ = &layout;
  for (Block<std::byte>& level : levels_) {
    if (level.size() != layout.size() * bytes_of(format_)) {
      level = {};
      level = arena_.take<std::byte>(layout.size() * bytes_of(format_), Use::gradients);
    }
    std::memset(level.data(), 0, level.size());  // also what pads buckets
  }
  missing_.resize(layout.buckets().size());
  pending_.resize(layout.buckets().size());
}

std::byte* BucketedGradients::data(std::size_t level, std::size_t bucket) const {
  return levels_[level].data() + layout_->begin(bucket) * bytes_of(format_);
}

std::byte* BucketedGradients::data(std::size_t level, const Place& place) const {
  return data(level, place.bucket) + place.offset * bytes_of(format_);
}

void BucketedGradients::begin(std::size_t leaves) {
  leaf_ = 0;
  leaves_ = leaves;
  next_ = 0;
  ready_order_.clear();
  is_summed_.assign(missing_.size(), false);
  begin_leaf();
}

void BucketedGradients::begin_leaf() {
  for (std::size_t i = 0; i < missing_.size(); ++i)
    missing_[i] = layout_->buckets()[i].places.size();
  for (auto& unit : is_ready_) std::fill(unit.begin(), unit.end(), false);
}

std::span<float* const> BucketedGradients::take(std::size_t unit) {
  return unit_.point(*layout_, unit,
                     [&](const Place& place) { return data(level_of(leaf_), place); });
}

void BucketedGradients::ready(std::size_t unit, std::size_t parameter) {
  const Place& place = layout_->place(unit, parameter);
  if (format_ != Format::f32)
    narrow(format_, place.size, unit_.pointers()[parameter], data(level_of(leaf_), place));
  is_ready_[unit][parameter] = true;
  if (leaf_ + 1 == leaves_) ready_order_.emplace_back(unit, parameter);
  if (--missing_[place.bucket] == 0) complete(place.bucket);
}

void BucketedGradients::complete(std::size_t bucket) {
  std::size_t level = level_of(leaf_);
  for (std::size_t i = additions_of(leaf_, leaves_); i > 0; --i, --level)
    add(format_, layout_->buckets()[bucket].size, data(level, bucket), data(level - 1, bucket));
  if (leaf_ + 1 < leaves_) return;
  for (; next_ < missing_.size() && missing_[next_] == 0; ++next_)
    pending_[next_] = start(next_, data(0, next_));
}

void BucketedGradients::end_unit(std::size_t unit) {
  for (std::size_t i = layout_->parameters(unit); i-- > 0;) {
    if (is_ready_[unit][i]) continue;
    const Place& place = layout_->place(unit, i);
    std::memset(data(level_of(leaf_), place), 0, place.size * bytes_of(format_));
    if (--missing_[place.bucket] == 0) complete(place.bucket);
  }
}

void BucketedGradients::end_leaf() {
  ++leaf_;
  begin_leaf();
}

void BucketedGradients::finish() {
  if (leaves_ > 0) return;
  // PyTorch calls this join: a rank without data takes part in the sums of the others.
  for (; next_ < missing_.size(); ++next_) {
    std::memset(data(0, next_), 0, layout_->buckets()[next_].size * bytes_of(format_));
    pending_[next_] = start(next_, data(0, next_));
  }
}

const void* BucketedGradients::sum(std::size_t bucket) {
  if (!is_summed_[bucket]) {
    traffic_.wait(pending_[bucket]);
    finish_bucket(bucket, data(0, bucket));
    is_summed_[bucket] = true;
  }
  return data(0, bucket) + sum_begin(bucket);
}

}  // namespace training
