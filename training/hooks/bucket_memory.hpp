// SPDX-License-Identifier: Apache-2.0
// What a hook puts on the wire, for each bucket from start() to finish().
#pragma once
#include <vector>

#include "../memory/arena.hpp"

namespace training {

class BucketMemory {
 public:
  explicit BucketMemory(Arena& arena) : arena_(arena) {}

  /// At least `bytes` bytes for a bucket. Buckets formed anew may need others.
  std::span<std::byte> take(std::size_t bucket, std::size_t bytes) {
    if (bucket >= blocks_.size()) blocks_.resize(bucket + 1);
    Block<std::byte>& block = blocks_[bucket];
    if (block.size() < bytes) {
      block = {};
      block = arena_.take<std::byte>(bytes, Use::staging);
    }
    return block.span().first(bytes);
  }
  [[nodiscard]] std::byte* data(std::size_t bucket) const { return blocks_[bucket].data(); }

 private:
  Arena& arena_;
  std::vector<Block<std::byte>> blocks_;
};

}  // namespace training
