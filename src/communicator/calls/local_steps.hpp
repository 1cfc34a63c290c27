// SPDX-License-Identifier: Apache-2.0
// What a rank does by itself with a call's buffers.
#pragma once
#include <memory>
#include <optional>

#include "communicator/calls/packed_parts.hpp"
#include "communicator/calls/scaled_input.hpp"

namespace coll {

/// Before a call moves its parts are packed and its input is multiplied; after its end the parts
/// are unpacked.
class LocalSteps {
 public:
  /// Points the request at the buffers that the call will use; null if the call has no such steps.
  static std::unique_ptr<LocalSteps> prepare(Request& request, Rank rank, Rank size,
                                             ScratchPool& pool);
  /// When the inputs are there.
  void before() const noexcept {
    if (packed_) packed_->pack();
    if (scaled_) scaled_->compute();
  }
  /// When the call has ended well.
  void after() const noexcept {
    if (packed_) packed_->unpack();
  }

 private:
  std::optional<PackedParts> packed_;
  std::optional<ScaledInput> scaled_;
};

}  // namespace coll
