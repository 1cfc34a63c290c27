// SPDX-License-Identifier: Apache-2.0
// What runs have on the device from their begin to their end.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "executor/device/stream_device.hpp"
#include "sys/cuda/pinned_words.hpp"

namespace coll {

struct StreamProgram;

/// Of one run: words that the device and the host talk by, and events at the end of its lanes.
struct StreamFlight {
  PinnedWord over;                   ///< the device writes 1 once all lanes have ended
  PinnedWord gate;                   ///< the lanes of a run that is held wait until it is 1
  std::vector<CudaEvent> ends;       ///< there may be more than lanes
  std::vector<CudaStream> streams;   ///< of the lanes that have work
  StreamProgram* program = nullptr;  ///< null: it is of no run
  std::uint32_t vain = 0;            ///< looks in a row at which nothing had happened
  bool captured = false;             ///< a graph uses it, for good
};

/// The flights of an executor, used again and again.
class StreamFlights {
 public:
  explicit StreamFlights(StreamDevice& device)
      : device_(device), words_(device.driver(), device.context()) {}
  StreamFlights(const StreamFlights&) = delete;
  StreamFlights& operator=(const StreamFlights&) = delete;
  ~StreamFlights();

  /// One of no run whose work is over, with events for so many lanes. Its words are 0. Allocates
  /// only if there is none. The device is current.
  Result<StreamFlight*> take(StreamProgram& program, std::size_t lanes);
  /// All that there are, those of no run too.
  [[nodiscard]] const std::vector<std::unique_ptr<StreamFlight>>& all() const { return all_; }

 private:
  Result<StreamFlight*> make();

  StreamDevice& device_;
  PinnedWords words_;
  std::vector<std::unique_ptr<StreamFlight>> all_;
};

}  // namespace coll
