// SPDX-License-Identifier: Apache-2.0
// What the C ABI's operations share: arguments become requests, requests go to their stream or
// group.
#pragma once
#include <algorithm>
#include <memory>
#include <utility>

#include "c_api/c_api_door.hpp"
#include "c_api/open_group.hpp"
#include "communicator/calls/call_check.hpp"

namespace coll {

/// What `body` returns, which takes the thread's open group, or null. What does not get into the
/// group keeps the others from being issued.
template <class Body>
Status in_group(Body body) {
  OpenGroup* const group = OpenGroup::of_thread();
  if (group == nullptr) [[likely]]
    return body(group);
  const Status added = caught([&] { return body(group); });
  if (!added.ok()) group->refuse(added);
  return added;
}

/// What is on a stream of CUDA ends with the stream's later work, which only CUDA can tell.
inline Status no_handle() {
  return failed(Code::unsupported, "an operation on a stream of CUDA has no handle",
                "pass a null `work`, and record an event of CUDA behind the operation");
}

inline Status add_to(OpenGroup& group, coll_comm_t comm, coll_stream_t stream, GroupedCall call) {
  if (comm == nullptr) {
    return null_argument(call.request.call.name().c_str(), "comm");
  }
  call.communicator = comm->communicator.get();
  if (call.request.extras != nullptr) call.extras = *call.request.extras;
  if (stream != nullptr) {
    COLL_TRY(check_stream(stream));
    call.stream = stream->stream.get();
    call.device_stream = stream->device_stream.get();
    if (call.device_stream != nullptr && call.works[0]) return no_handle();
  }
  return group.add(std::move(call));
}

/// Runs it here, or, checked at the door, later on the stream.
inline Status issue(coll_comm_t comm, coll_stream_t stream, const Request& request) {
  if (comm == nullptr) return null_argument(request.call.name().c_str(), "comm");
  Communicator& communicator = *comm->communicator;
  if (stream == nullptr) {
    return request.call.tagged() ? communicator.run_queued(request) : communicator.run(request);
  }
  COLL_TRY(check_request(request, communicator.rank(), communicator.size()));
  COLL_TRY(communicator.status());
  COLL_TRY(check_stream(stream));
  if (stream->device_stream) {
    return stream->device_stream->enqueue(communicator, request, OpenCall::kOwnDeadline);
  }
  stream->stream->enqueue(communicator, request);
  return {};
}

/// Adds an operation to the group, or issues it. `blocks` are its unequal blocks, if it has any.
inline Status add_or_issue(OpenGroup* group, coll_comm_t comm, coll_stream_t stream,
                           const Request& request,
                           std::shared_ptr<const UnequalBlocks> blocks = nullptr) {
  if (group == nullptr) return issue(comm, stream, request);
  return add_to(
      *group, comm, stream,
      {.request = request, .blocks = std::move(blocks), .waits = stream == nullptr, .works = {}});
}

inline Call call_of(Collective collective, std::size_t count, coll_dtype_t type, coll_op_t op,
                    int root) {
  Call call;
  call.collective = collective;
  // Unknown values stay unknown when they are narrowed; the door refuses them.
  call.type = static_cast<DataType>(std::min<unsigned>(type, 0xff));
  call.op = static_cast<ReduceOp>(std::min<unsigned>(op, 0xff));
  if (is_own(call.op)) call.op = static_cast<ReduceOp>(0xff);  // no number of the user's says that
  call.root = root;
  call.count = count;
  return call;
}

inline Call unequal_call_of(Collective collective, coll_dtype_t type, coll_op_t op, int root) {
  Call call = call_of(collective, 0, type, op, root);
  call.form = CallForm::unequal;
  return call;
}

inline Request request_of(Collective collective, const void* send, void* recv, std::size_t count,
                          coll_dtype_t type, coll_op_t op, int root) {
  Request request;
  request.call = call_of(collective, count, type, op, root);
  request.input = send;
  request.output = recv;
  return request;
}

/// `extras` has the tag; it must stay until the request is issued (a temporary does, in the
/// expression that issues it).
inline Request tagged_request(Request request, const Extras& extras) {
  request.call.form = CallForm::tagged;
  request.extras = &extras;
  return request;
}

}  // namespace coll
