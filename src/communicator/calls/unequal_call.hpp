// SPDX-License-Identifier: Apache-2.0
// Calls of unequal blocks, from the counts and displacements that a user gives.
#pragma once
#include <memory>

#include "base/status.hpp"
#include "communicator/calls/bound_calls.hpp"

namespace coll {

/// What the user gave, in elements. A buffer with a block for each rank has counts, and perhaps
/// displacements (null: the blocks follow one another); one with a single block has `count`, where
/// no other argument says how long it is.
struct UnequalCall {
  Call call;  ///< but for its count
  const void* send = nullptr;
  void* recv = nullptr;
  const std::size_t* send_counts = nullptr;
  const std::size_t* send_displs = nullptr;
  const std::size_t* recv_counts = nullptr;
  const std::size_t* recv_displs = nullptr;
  std::size_t count = 0;  ///< of a gather's send and of a scatter's recv
};

/// A request, and the blocks that it needs while it is kept; none where they are equal.
struct UnequalRequest {
  Request request;
  std::shared_ptr<const UnequalBlocks> blocks;
};

/// The request that it makes on a rank; it is still to be checked (call_check.hpp).
Result<UnequalRequest> unequal_request(const UnequalCall& given, Rank rank, Rank size);

}  // namespace coll
