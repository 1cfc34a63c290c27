// SPDX-License-Identifier: Apache-2.0
// Writes a rank's file by a thread while training goes on with the next steps (CheckFreq, Mohan et
// al. 2021, FAST '21: first a snapshot in memory, then the disk).
#pragma once
#include <chrono>
#include <future>

#include "checkpoint_writer.hpp"

namespace training {

class AsyncWriter {
 public:
  explicit AsyncWriter(const CheckpointWriter& writer) : writer_(writer) {}

  /// Begins to write; `snapshot` must stay as it is until done() or wait() says so.
  void start(std::uint64_t step, const Snapshot& snapshot) {
    if (writing_.valid())
      throw Failure("the last checkpoint is still being written: wait for it, or write less often");
    writing_ = std::async(std::launch::async,
                          [this, step, &snapshot] { writer_.write_shard(step, snapshot); });
  }
  /// Whether nothing is being written. Throws what the writing failed with, once.
  bool done() {
    if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      return false;
    wait();
    return true;
  }
  /// Until done.
  void wait() {
    if (writing_.valid()) writing_.get();
  }

 private:
  const CheckpointWriter& writer_;
  std::future<void> writing_;  ///< its destructor waits too
};

}  // namespace training
