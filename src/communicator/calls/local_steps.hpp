// SPDX-License-Identifier: Apache-2.0
// What a rank does by itself with a call's buffers.
#pragma once
#include <memory>
#include <optional>

#include "communicator/calls/device_buffers.hpp"
#include "communicator/calls/packed_parts.hpp"
#include "communicator/calls/placed_buffers.hpp"
#include "communicator/calls/scaled_input.hpp"

namespace coll {

/// A failure of the rank's own, in words for all ranks.
Status said_by(Rank rank, const Status& failure);

/// Before a call moves its parts are packed, its inputs copied off a GPU, and multiplied; after its
/// end the parts are unpacked, or the outputs copied to the GPU. Buffers of a call that a GPU moves
/// are copied to that GPU. A copy may fail: its failure names this rank.
class LocalSteps {
 public:
  /// Points the request at the buffers that the call will use; null if the call has no such steps.
  /// `on_host` as in OpenCall; `gpu`: which moves the call, if one does.
  static Result<std::unique_ptr<LocalSteps>> prepare(Request& request, Rank rank, Rank size,
                                                     ScratchPool& pool, bool on_host,
                                                     StreamDevice* gpu);
  /// When the inputs are there.
  [[nodiscard]] Status before() const noexcept;
  /// When the call has ended well.
  [[nodiscard]] Status after() const noexcept;

 private:
  template <class Work>
  Status on_this_rank(Work work) const noexcept;

  Rank rank_ = kNoRank;
  std::optional<PackedParts> packed_;
  std::optional<DeviceBuffers> device_;
  std::optional<ScaledInput> scaled_;
  std::optional<PlacedBuffers> placed_;
};

}  // namespace coll
