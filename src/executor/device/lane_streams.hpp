// SPDX-License-Identifier: Apache-2.0
// The streams of an executor's lanes.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "executor/device/stream_device.hpp"

namespace coll {

/// A stream for each lane, made when it is first used, and one on which calls end that belong to no
/// stream of the user. They wait for no default stream.
struct StreamSet {
  std::vector<CudaStream> lanes;
  CudaStream tail = nullptr;
  std::uint64_t capture = 0;  ///< of a set for captures: the last that it was in
};

/// Calls that are captured have sets of their own: while a stream is part of a capture, nothing
/// runs on it. Two captures may be under way at once, so each has its own set until it ends.
class LaneStreams {
 public:
  explicit LaneStreams(StreamDevice& device) : device_(device) {}
  LaneStreams(const LaneStreams&) = delete;
  LaneStreams& operator=(const LaneStreams&) = delete;
  ~LaneStreams();

  // The device is current. Both give a set with streams for so many lanes.
  Result<StreamSet*> ordinary(std::size_t lanes);
  Result<StreamSet*> of_capture(std::uint64_t id, std::size_t lanes);

 private:
  /// None of its streams is part of a capture.
  [[nodiscard]] bool is_free(const StreamSet& set) const;
  Status grow(StreamSet& set, std::size_t lanes);
  Status make(CudaStream& stream);
  void destroy(const StreamSet& set);

  StreamDevice& device_;
  StreamSet ordinary_;
  std::vector<std::unique_ptr<StreamSet>> captures_;
};

}  // namespace coll
