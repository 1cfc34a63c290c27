// SPDX-License-Identifier: Apache-2.0
// Words by which streams and the processor wait for each other.
#include "sys/cuda/pinned_words.hpp"

#include <cstring>
#include <utility>

namespace coll {

Result<PinnedWord> PinnedWords::next() {
  if (used_ == kBlockBytes) {
    COLL_ASSIGN(PinnedBlock block, PinnedBlock::allocate(driver_, context_, kBlockBytes));
    std::memset(block.data(), 0, kBlockBytes);
    blocks_.push_back(std::move(block));
    used_ = 0;
  }
  const PinnedBlock& block = blocks_.back();
  const PinnedWord word{reinterpret_cast<std::uint32_t*>(block.data() + used_),
                        block.address() + used_};
  used_ += kStride;
  return word;
}

void PinnedWords::abandon() {
  for (PinnedBlock& block : blocks_) block.abandon();
}

}  // namespace coll
