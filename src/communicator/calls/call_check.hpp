// SPDX-License-Identifier: Apache-2.0
// The door, where a call's arguments are checked once.
#pragma once
#include <string>

#include "communicator/calls/bound_calls.hpp"

namespace coll {

/// Do the dtype and the reduction exist, and has the reduction a meaning for the dtype? A call that
/// reduces nothing has the op sum.
Status check_names(const Call& call);

/// Is the call right but for its buffers? Names, root or peer, count.
Status check_call(const Call& call, Rank size);

/// Is `data` memory that processors read? `name` says what it is of the call.
Status check_host_memory(const std::string& name, const void* data);
/// Is it that, or can it be copied there? Calls on the host move the bytes.
Status check_reached(const std::string& name, const void* data);

/// Is the request right as far as this rank can tell? Pointers, ranges, overlap. No communication.
Status check_request(const Request& request, Rank rank, Rank size);

}  // namespace coll
