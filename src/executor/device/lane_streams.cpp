// SPDX-License-Identifier: Apache-2.0
// The streams of an executor's lanes.
#include "executor/device/lane_streams.hpp"

#include "sys/cuda/beside_captures.hpp"

namespace coll {

LaneStreams::~LaneStreams() {
  for (CudaStream stream : streams_) device_.driver().stream_destroy(stream);
}

Result<std::span<const CudaStream>> LaneStreams::first(std::size_t lanes) {
  while (streams_.size() < lanes) {
    const BesideCaptures beside(device_.driver());
    COLL_ASSIGN(CudaStream const stream, device_.new_stream());
    streams_.push_back(stream);
  }
  return std::span<const CudaStream>(streams_).first(lanes);
}

}  // namespace coll
