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

/// Of one run.
struct StreamFlight {
  /// By lane: the device writes how many passes of the run are behind it. There may be more than
  /// lanes.
  std::vector<PinnedWord> words;
  StreamProgram* program = nullptr;  ///< null: it is of no run
  std::uint64_t passes = 0;          ///< that streams have
  std::uint32_t vain = 0;            ///< looks in a row at which nothing had happened
  bool lost = false;                 ///< the device may write its words at any time
};

/// The flights of an executor, used again and again. They are made beforehand, as many as runs can
/// be on the device at once: to make more might wait for a stream that waits for the run.
class StreamFlights {
 public:
  explicit StreamFlights(StreamDevice& device) : words_(device.driver(), device.context()) {}
  StreamFlights(const StreamFlights&) = delete;
  StreamFlights& operator=(const StreamFlights&) = delete;
  ~StreamFlights();

  /// From now on all have words for so many lanes. The device is current.
  Status reserve(std::size_t lanes);
  /// One of no run, whose words are 0; null: all are of runs.
  StreamFlight* take(StreamProgram& program);
  /// All that there are, those of no run too.
  [[nodiscard]] const std::vector<std::unique_ptr<StreamFlight>>& all() const { return all_; }

 private:
  static constexpr std::size_t kFlights = 8;
  PinnedWords words_;
  std::vector<std::unique_ptr<StreamFlight>> all_;
};

}  // namespace coll
