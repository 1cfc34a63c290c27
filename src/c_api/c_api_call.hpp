// SPDX-License-Identifier: Apache-2.0
// Reads a coll_call_t.
#pragma once
#include <collectives/collectives.h>

#include "base/status.hpp"
#include "communicator/calls/unequal_call.hpp"
#include "communicator/communicator.hpp"

namespace coll {

/// The call, if it was initialised as this version asks; `function` asks for it.
Result<coll_call_t> read_call(const char* function, const coll_call_t* given);

/// The request that the call makes, but for its extras. It is still to be checked. What the
/// operation lacks says nothing: two calls that mean the same are equal.
Result<UnequalRequest> request_of(const char* function, const coll_call_t& call,
                                  const Communicator& communicator);

/// What few calls have: a tag, a factor, a reduction of the program's own, parts.
Result<Extras> extras_of(const char* function, const coll_call_t& call);

}  // namespace coll
