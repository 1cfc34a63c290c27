// SPDX-License-Identifier: Apache-2.0
// The streams of an executor's lanes.
#pragma once
#include <span>
#include <vector>

#include "executor/device/stream_device.hpp"

namespace coll {

/// A stream for each lane, made when it is first used. They wait for no default stream.
class LaneStreams {
 public:
  explicit LaneStreams(StreamDevice& device) : device_(device) {}
  LaneStreams(const LaneStreams&) = delete;
  LaneStreams& operator=(const LaneStreams&) = delete;
  ~LaneStreams();

  /// Streams for so many lanes. The device is current.
  Result<std::span<const CudaStream>> first(std::size_t lanes);

 private:
  StreamDevice& device_;
  std::vector<CudaStream> streams_;
};

}  // namespace coll
