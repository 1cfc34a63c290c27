// SPDX-License-Identifier: Apache-2.0
// The streams of an executor's lanes.
#include "executor/device/lane_streams.hpp"

#include "sys/cuda/beside_captures.hpp"

namespace coll {

LaneStreams::~LaneStreams() {
  for (CudaStream stream : streams_) device_.driver().stream_destroy(stream);
}

Result<std::span<const CudaStream>> LaneStreams::first(std::size_t lanes) {
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  while (streams_.size() < lanes) {
    const BesideCaptures beside(device_.driver());
    CudaStream stream = nullptr;
    if (const int error = device_.driver().stream_create(&stream, kNonBlocking))
      return device_.failed_to("a stream", error);
    streams_.push_back(stream);
  }
  return std::span<const CudaStream>(streams_).first(lanes);
}

}  // namespace coll
