// SPDX-License-Identifier: Apache-2.0
// The streams of an executor's lanes.
#include "executor/device/lane_streams.hpp"

#include <algorithm>

#include "sys/cuda/beside_captures.hpp"

namespace coll {

LaneStreams::~LaneStreams() {
  destroy(ordinary_);
  for (const auto& set : captures_) destroy(*set);
}

Result<StreamSet*> LaneStreams::ordinary(std::size_t lanes) {
  COLL_TRY(grow(ordinary_, lanes));
  return &ordinary_;
}

Result<StreamSet*> LaneStreams::of_capture(std::uint64_t id, std::size_t lanes) {
  StreamSet* free = nullptr;
  for (const auto& set : captures_) {
    if (set->capture == id) {
      COLL_TRY(grow(*set, lanes));
      return set.get();
    }
    if (is_free(*set)) free = set.get();
  }
  if (free == nullptr) free = captures_.emplace_back(std::make_unique<StreamSet>()).get();
  COLL_TRY(grow(*free, lanes));
  free->capture = id;
  return free;
}

bool LaneStreams::is_free(const StreamSet& set) const {
  return std::ranges::all_of(set.lanes, [this](CudaStream stream) {
    int status = 0;  // CU_STREAM_CAPTURE_STATUS_NONE
    return device_.driver().stream_is_capturing(stream, &status) == 0 && status == 0;
  });
}

Status LaneStreams::grow(StreamSet& set, std::size_t lanes) {
  if (set.tail == nullptr) COLL_TRY(make(set.tail));
  while (set.lanes.size() < lanes) {
    CudaStream stream = nullptr;
    COLL_TRY(make(stream));
    set.lanes.push_back(stream);
  }
  return {};
}

Status LaneStreams::make(CudaStream& stream) {
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  const BesideCaptures beside(device_.driver());
  if (const int error = device_.driver().stream_create(&stream, kNonBlocking))
    return device_.failed_to("a stream", error);
  return {};
}

void LaneStreams::destroy(const StreamSet& set) {
  const CudaDriver& driver = device_.driver();
  for (CudaStream stream : set.lanes) driver.stream_destroy(stream);
  if (set.tail != nullptr) driver.stream_destroy(set.tail);
}

}  // namespace coll
