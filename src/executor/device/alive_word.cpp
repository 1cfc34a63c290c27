// SPDX-License-Identifier: Apache-2.0
// What a rank's streams signal with: 1 as long as what they have done is worth anything.
#include "executor/device/alive_word.hpp"

#include "sys/cuda/beside_captures.hpp"

namespace coll {

Status AliveWord::make() {
  if (word_.address() != 0) return {};
  const BesideCaptures beside(device_.driver());
  for (PinnedWord& value : value_) {
    COLL_ASSIGN(value, values_.next());
  }
  COLL_ASSIGN(barrier_, values_.next());
  value_[1].set(1);
  value_[0].set(2);
  COLL_ASSIGN(CudaPiece word, CudaPiece::allocate(device_.context(), sizeof(std::uint32_t)));
  word_ = std::move(word);
  int error = write(true);
  if (error == 0) error = device_.driver().stream_synchronize(device_.copy_stream());
  return error == 0 ? Status() : device_.failed_to("a word", error);
}

int AliveWord::write(bool alive) noexcept {
  return device_.driver().copy_async(word_.address(), value_[alive ? 1 : 0].there,
                                     sizeof(std::uint32_t), device_.copy_stream());
}

bool AliveWord::kill() noexcept {
  if (!killed_) killed_ = write(false) == 0;
  return killed_ && device_.driver().stream_query(device_.copy_stream()) != kCudaNotReady;
}

void AliveWord::revive() noexcept {
  if (!killed_) return;
  killed_ = write(true) != 0;
  if (!killed_) device_.driver().stream_synchronize(device_.copy_stream());
}

}  // namespace coll
