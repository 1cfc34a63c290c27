// SPDX-License-Identifier: Apache-2.0
// Copies between this process's memory and that of GPUs, and memory that GPUs copy fast.
#pragma once
#include <cstddef>
#include <vector>

#include "base/memory_kind.hpp"
#include "sys/cuda/cuda_driver.hpp"

namespace coll {

/// Copies that run side by side, on a stream of the library's for each GPU, which all threads
/// share. They wait for no stream of the program's, see `await_default_stream`. Only where the
/// driver `copies()`.
class DeviceCopies {
 public:
  /// `on_host`: no end of any copy is memory of a GPU, so the driver need not be asked.
  explicit DeviceCopies(bool on_host = false) : on_host_(on_host) {}
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;
  /// Waits for what was started, so that nobody frees its memory.
  ~DeviceCopies() { wait(); }

  /// Starts a copy. Either end may be memory of a GPU or of the host, each of one allocation;
  /// within the host they may overlap. Of `bytes` 0 neither is looked at.
  void add(void* to, const void* from, std::size_t bytes);
  /// Waits for all; the first failure.
  Status finish();

 private:
  struct Error {
    int code = 0, device = -1;
  };
  Error wait() noexcept;

  bool on_host_;
  std::vector<int> devices_;  ///< that copy, by CUDA's number
  Status failure_;            ///< of the first copy that did not start: none starts after it
};

/// Waits for what the program has put on the default stream of the device's primary context so far:
/// cudaMemcpy may return before its end.
Status await_default_stream(int device);

/// Fixes host memory in place, so that GPUs copy it without a detour. Not possible: then copies are
/// slower, and nothing else. All of [begin, begin + bytes) must be unpinned before it is freed.
bool pin_memory(void* begin, std::size_t bytes, int device);
void unpin_memory(void* begin, int device);

}  // namespace coll
