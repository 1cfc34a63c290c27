// SPDX-License-Identifier: Apache-2.0
// The operations that a run gives to streams.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "executor/device/stream_device.hpp"
#include "reduce/device/reduce_arguments.hpp"

namespace coll {

/// Gives operations to one stream after the other. After the first that the driver refuses it gives
/// none.
class StreamQueue {
 public:
  explicit StreamQueue(const StreamDevice& device) : device_(device), driver_(device.driver()) {}

  /// What follows is for this stream.
  void enter(CudaStream stream) { stream_ = stream; }

  /// Waits until the word is 1.
  void wait(CudaAddress word) {
    constexpr unsigned kEqual = 1;  // CU_STREAM_WAIT_VALUE_EQ
    take("a wait", [&] { return driver_.stream_wait_word(stream_, word, 1, kEqual); });
  }
  /// Behind a memory barrier: who sees it sees what the stream did before.
  void write(CudaAddress word, std::uint32_t value) {
    take("a write", [&] { return driver_.stream_write_word(stream_, word, value, 0); });
  }
  /// Makes the word what `alive` is, behind what the stream did before. Of copies it is not written
  /// down that another device sees them in order; of writes to words it is. So there is one to a
  /// word, `barrier`, that nobody reads.
  void signal(CudaAddress word, CudaAddress alive, CudaAddress barrier) {
    write(barrier, 1);
    take("a signal",
         [&] { return driver_.copy_async(word, alive, sizeof(std::uint32_t), stream_); });
  }
  /// Between memory of any kind.
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    take("a copy", [&] {
      return driver_.copy_async(reinterpret_cast<std::uintptr_t>(to),
                                reinterpret_cast<std::uintptr_t>(from), bytes, stream_);
    });
  }
  void reduce(CudaFunction kernel, reduce::ReduceArguments arguments, unsigned blocks,
              unsigned threads) {
    void* parameters[] = {&arguments};
    take("a kernel", [&] {
      return driver_.launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream_, parameters, nullptr);
    });
  }
  void record(CudaEvent event) {
    take("an event", [&] { return driver_.event_record(event, stream_); });
  }
  void wait_for(CudaEvent event) {
    take("a wait for an event", [&] { return driver_.stream_wait_event(stream_, event, 0); });
  }

  [[nodiscard]] bool ok() const { return error_ == 0; }
  [[nodiscard]] Status status() const {
    return ok() ? Status() : device_.failed_to(std::string(refused_) + " on a stream", error_);
  }

 private:
  template <class Operation>
  void take(const char* what, Operation operation) {
    if (error_ != 0) return;
    error_ = operation();
    refused_ = what;
  }

  const StreamDevice& device_;
  const CudaDriver& driver_;
  CudaStream stream_ = nullptr;
  int error_ = 0;
  const char* refused_ = "";
};

}  // namespace coll
