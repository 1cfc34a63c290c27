// SPDX-License-Identifier: Apache-2.0
// Two buffers in turns, and sums of parts.
#include "zero2.hpp"

#include <cstring>

#include "../layout/leaf_tree.hpp"

namespace training {

Zero2Gradients::Zero2Gradients(const FlatLayout& layout, Format format, std::size_t most_leaves,
                               Traffic& traffic, Arena& arena)
    : layout_(layout),
      format_(format),
      owned_{traffic.rank(), traffic.ranks()},
      traffic_(traffic),
      unit_(layout, format, arena) {
  for (std::size_t level = 0; level < std::max<std::size_t>(levels_of(most_leaves), 1); ++level)
    levels_.push_back(
        arena.take<std::byte>(owned_.size(layout) * bytes_of(format), Use::gradients));
  for (Buffer& buffer : buffers_)
    buffer.data = arena.take<std::byte>(layout.largest() * bytes_of(format), Use::buckets);
}

std::byte* Zero2Gradients::shard(std::size_t level, std::size_t bucket) const {
  return levels_[level].data() + layout_.begin(bucket) / owned_.ranks * bytes_of(format_);
}

void Zero2Gradients::begin(std::size_t leaves) {
  leaf_ = 0;
  leaves_ = leaves;
}

std::span<float* const> Zero2Gradients::take(std::size_t unit) {
  Buffer& buffer = current();
  settle(buffer);
  buffer.bucket = layout_.place(unit, 0).bucket;
  buffer.leaf = leaf_;
  // A model of one unit: the sum of the last micro-batch must be in the tree before the next one
  // comes.
  for (Buffer& other : buffers_)
    if (other.bucket == buffer.bucket) settle(other);
  is_ready_.assign(layout_.parameters(unit), false);
  std::byte* data = buffer.data.data();
  return unit_.point(layout_, unit,
                     [&](const Place& place) { return data + place.offset * bytes_of(format_); });
}

void Zero2Gradients::ready(std::size_t unit, std::size_t parameter) {
  const Place& place = layout_.place(unit, parameter);
  if (format_ != Format::f32) {
    narrow(format_, place.size, unit_.pointers()[parameter],
           current().data.data() + place.offset * bytes_of(format_));
  }
  is_ready_[parameter] = true;
}

void Zero2Gradients::end_unit(std::size_t /*unit*/) {
  Buffer& buffer = current();
  const Bucket& bucket = layout_.buckets()[buffer.bucket];
  const auto clear = [&](std::size_t begin, std::size_t end) {
    std::memset(buffer.data.data() + begin * bytes_of(format_), 0,
                (end - begin) * bytes_of(format_));
  };
  // What pads the bucket still has bits of another unit.
  std::size_t end = 0;
  for (const Place& place : bucket.places) {
    clear(end, place.offset);
    end = place.offset + place.size;
    if (!is_ready_[place.parameter]) clear(place.offset, end);
  }
  clear(end, bucket.size);
  buffer.pending =
      traffic_.reduce_scatter(buffer.data.data(), shard(level_of(buffer.leaf), buffer.bucket),
                              bucket.size / owned_.ranks, format_);
  ++used_;
}

void Zero2Gradients::settle(Buffer& buffer) {
  if (!buffer.pending) return;
  traffic_.wait(buffer.pending);
  const std::size_t count = layout_.buckets()[buffer.bucket].size / owned_.ranks;
  std::size_t level = level_of(buffer.leaf);
  for (std::size_t i = additions_of(buffer.leaf, leaves_); i > 0; --i, --level)
    add(format_, count, shard(level, buffer.bucket), shard(level - 1, buffer.bucket));
}

void Zero2Gradients::finish() {
  // In the order in which they were sent.
  settle(current());
  settle(buffers_[(used_ + 1) % buffers_.size()]);
}

const void* Zero2Gradients::sum(std::size_t bucket) {
  return shard(0, bucket);
}

}  // namespace training
