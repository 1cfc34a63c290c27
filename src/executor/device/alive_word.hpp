// SPDX-License-Identifier: Apache-2.0
// What a rank's streams signal with: 1 as long as what they have done is worth anything.
#pragma once
#include <array>
#include <cstdint>

#include "executor/device/stream_device.hpp"
#include "sys/cuda/device_memory.hpp"
#include "sys/cuda/pinned_words.hpp"

namespace coll {

/// Streams copy this word to the words that peers wait for. Peers wait for 1. To abandon runs,
/// their streams are let through all waits, and so send what never came: then the word is 2 before,
/// and peers do not take it for a message.
///
/// It lies in memory of the device. CUDA does copies from host memory to host memory on the calling
/// thread.
class AliveWord {
 public:
  explicit AliveWord(StreamDevice& device)
      : device_(device), values_(device.driver(), device.context()) {}
  AliveWord(const AliveWord&) = delete;
  AliveWord& operator=(const AliveWord&) = delete;

  /// Makes it, the first time. The device is current.
  Status make();
  [[nodiscard]] CudaAddress address() const { return word_.address(); }
  /// A word that streams may write and nobody reads.
  [[nodiscard]] CudaAddress barrier() const { return barrier_.there; }
  /// Once this returns true, nothing that the streams do is a signal. Call it again until then.
  bool kill() noexcept;
  /// No stream has work that was abandoned.
  void revive() noexcept;
  /// Never frees it: streams may still copy it.
  void abandon() {
    word_.abandon();
    values_.abandon();
  }

 private:
  int write(bool alive) noexcept;

  StreamDevice& device_;
  PinnedWords values_;
  std::array<PinnedWord, 2> value_{};  ///< by `alive`
  PinnedWord barrier_;
  CudaPiece word_;
  bool killed_ = false;  ///< a copy is on its way, or was
};

}  // namespace coll
