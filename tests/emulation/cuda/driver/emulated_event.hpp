// SPDX-License-Identifier: Apache-2.0
// Events, and the signals that each recording of one makes.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>

#include "emulation/cuda/cuda_abi.hpp"
#include "emulation/cuda/driver/emulated_stream.hpp"

namespace emucuda {

/// The words of an event that several processes share, in a memfd.
class EventPage final : public Shared {
 public:
  struct Words {
    std::atomic<std::uint64_t> recorded, done;  // how many recordings
  };
  /// Null: the system refuses. Takes over the descriptor.
  static Kept<EventPage> map(int descriptor);
  Words& words() const { return *words_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  EventPage(int descriptor, Words* words) : descriptor_(descriptor), words_(words) {}
  ~EventPage() override;
  const int descriptor_;
  Words* const words_;
};

/// One recording of an event: raised once, when the stream that it is recorded on gets there. Each
/// recording has a signal of its own, so who waits for it is ordered behind that stream and behind
/// no earlier recording's.
class Signal final : public Shared {
 public:
  Signal() = default;
  Signal(Kept<EventPage> page, std::uint64_t goal) : page_(std::move(page)), goal_(goal) {}
  void raise();
  [[nodiscard]] bool raised() const;
  void await() const;
  /// When it was raised. Of signals that are raised.
  [[nodiscard]] std::int64_t time_ns() const { return time_ns_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] std::atomic<std::uint64_t>& word() const {
    return page_ ? page_->words().done : own_;
  }

  mutable std::atomic<std::uint64_t> own_{0};
  std::atomic<std::int64_t> time_ns_{0};
  const Kept<EventPage> page_{};
  const std::uint64_t goal_ = 1;
};

/// A place in a capture.
struct CapturedPlace {
  std::uint64_t capture = 0;  // its number; 0: none
  std::size_t signal = 0;
};

struct Event final : Shared {
  explicit Event(unsigned with) : flags(with) {}
  const unsigned flags;
  Kept<EventPage> page;  // of an event that processes share
  std::mutex mutex;      // of the host's threads
  Kept<Signal> latest;   // none: never recorded
  CapturedPlace captured;

  /// The signal of the latest recording, of another process's too.
  Kept<Signal> signal();
};

void submit_raise(Stream& stream, Kept<Signal> signal);
void submit_wait(Stream& stream, Kept<Signal> signal);

}  // namespace emucuda
