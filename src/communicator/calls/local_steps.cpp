// SPDX-License-Identifier: Apache-2.0
// What a rank does by itself with a call's buffers.
#include "communicator/calls/local_steps.hpp"

namespace coll {

std::unique_ptr<LocalSteps> LocalSteps::prepare(Request& request, Rank rank, Rank size,
                                                CallMemory& memory) {
  const Extras* const extras = request.extras;
  if (extras == nullptr || (!extras->parts && !extras->factor)) return nullptr;
  auto steps = std::make_unique<LocalSteps>();
  if (extras->parts) steps->packed_.emplace(request, rank, size, memory);
  if (extras->factor) steps->scaled_.emplace(request, rank, size, memory);
  return steps;
}

}  // namespace coll
