// SPDX-License-Identifier: Apache-2.0
// What runs of fused kernels have from their begin to their end.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "executor/device/fused/fused_device.hpp"
#include "sys/cuda/pinned_words.hpp"

namespace coll {

struct FusedProgram;
struct Run;

/// Of one run: words that the kernel and the host talk by.
struct FusedFlight {
  PinnedWord over;                  ///< how the kernel has ended (FusedArguments); 0: it has not
  PinnedWord abort;                 ///< 1: the kernel is to end
  FusedProgram* program = nullptr;  ///< null: it is of no run
  const Run* run = nullptr;
  std::uint64_t number = 0;  ///< kernels end in the order of their flights' numbers
  std::uint32_t vain = 0;    ///< looks in a row at which nothing had happened

  [[nodiscard]] bool is_to_end() const {
    return std::atomic_ref(*abort.here).load(std::memory_order_relaxed) != 0;
  }
  [[nodiscard]] std::uint32_t end() const {
    return std::atomic_ref(*over.here).load(std::memory_order_acquire);
  }
};

/// The flights of an executor, used again and again.
class FusedFlights {
 public:
  explicit FusedFlights(const StreamDevice& device) : words_(device.driver(), device.context()) {}
  FusedFlights(const FusedFlights&) = delete;
  FusedFlights& operator=(const FusedFlights&) = delete;
  ~FusedFlights();

  /// Makes all that there will be: to allocate pinned memory the driver may wait for kernels. The
  /// device is current.
  Status open();
  /// One of no run whose kernel has ended, for this run. Its words are 0. They are not full.
  FusedFlight& take(FusedProgram& program, const Run& run);
  /// All are taken. They are no more than may wait in a stream: a driver's queue has some hundred
  /// places, and who launches one more waits for the first to end.
  [[nodiscard]] bool full() const { return next_free() == nullptr; }
  /// The run is over, or was abandoned.
  static void release(FusedFlight& flight);
  /// Of a run in flight; null: it has none.
  [[nodiscard]] FusedFlight* find(const Run& run) const;
  /// Asks this kernel to end, and those before it, which it waits for.
  void abort_up_to(const FusedFlight& flight) const;
  /// Kernels that have not ended may still use the executor's memory.
  [[nodiscard]] bool all_ended() const;

 private:
  [[nodiscard]] FusedFlight* next_free() const;

  PinnedWords words_;
  std::vector<std::unique_ptr<FusedFlight>> all_;
  std::uint64_t taken_ = 0;
};

}  // namespace coll
