// SPDX-License-Identifier: Apache-2.0
// Buffers of a call that a GPU moves and that do not lie on it.
#pragma once
#include "communicator/calls/device_buffers.hpp"
#include "executor/device/stream_device.hpp"

namespace coll {

/// Memory of the GPU in place of those buffers of a call that lie elsewhere: inputs are copied
/// there before the call moves, outputs back after it has ended. So the plan depends on no buffer.
class PlacedBuffers {
 public:
  /// Does any of the request's buffers lie elsewhere?
  static bool any(const Request& request, Rank rank, Rank size, const StreamDevice& gpu);

  /// Makes the memory that the next such request will take, if it needs any.
  static Status reserve(const Request& request, Rank rank, Rank size, ScratchPool& pool,
                        StreamDevice& gpu);

  /// Takes memory and points the request's buffers at it.
  static Result<PlacedBuffers> place(Request& request, Rank rank, Rank size, ScratchPool& pool,
                                     StreamDevice& gpu);
  /// When the inputs are there.
  [[nodiscard]] Status fetch() const;
  /// When the call has ended well.
  [[nodiscard]] Status store() const;

 private:
  PlacedBuffers(const Request& request, Rank rank, Rank size, StreamDevice& gpu);
  Status take(ScratchPool& pool);
  template <class Copies>
  Status copy(Copies copies) const;

  Request given_;
  Buffers buffers_;
  StagedPair pair_;
  StreamDevice* gpu_;
  ScratchPool::Block block_;
};

}  // namespace coll
