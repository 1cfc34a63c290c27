// SPDX-License-Identifier: Apache-2.0
// Many parts as one call.
#pragma once
#include <memory>

#include "communicator/calls/bound_calls.hpp"
#include "executor/scratch_pool.hpp"

namespace coll {

/// Packs the parts of a call into one buffer, block by block, and takes its result apart. In an
/// all_gather, for instance, a packed block holds one rank's blocks of all parts. Parts may lie on
/// GPUs.
class PackedParts {
 public:
  /// Takes memory and points the request's buffers at it. The packed call is in place where its
  /// operation allows that. `on_host` as in OpenCall.
  PackedParts(Request& request, Rank rank, Rank size, ScratchPool& pool, bool on_host);
  /// When the inputs are there.
  [[nodiscard]] Status pack() const;
  /// When the call has ended well.
  [[nodiscard]] Status unpack() const;

 private:
  /// Calls copy(place in the packed buffer, part, block of that part, bytes) for each block.
  template <class Copy>
  void for_each_block(std::byte* packed, std::uint32_t blocks, Copy copy) const;

  std::shared_ptr<const CallParts> parts_;
  std::size_t element_;
  bool on_host_;
  std::uint64_t block_;  ///< bytes of all parts' blocks of one rank
  BlockShape shape_;
  ScratchPool::Block first_, second_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
};

}  // namespace coll
