// SPDX-License-Identifier: Apache-2.0
// The C ABI's operations.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "c_api/c_api_door.hpp"
#include "c_api/open_group.hpp"
#include "communicator/engine/call_check.hpp"
#include "communicator/engine/call_digest.hpp"
#include "communicator/engine/unequal_call.hpp"

using coll::Code;
using coll::Collective;
using coll::failed;
using coll::guarded;
using coll::Request;
using coll::Status;
using coll::UnequalCall;

namespace {

/// What does not get into the group keeps the others from being issued.
template <class Body>
Status collect(coll::OpenGroup& group, Body body) {
  const Status added = coll::caught(body);
  if (!added.ok()) group.refuse(added);
  return added;
}

Status add_to(coll::OpenGroup& group, coll_comm_t comm, coll_stream_t stream,
              coll::GroupedCall call) {
  if (comm == nullptr) {
    return coll::null_argument(call.request.call.name().c_str(), "comm");
  }
  call.communicator = comm->communicator.get();
  if (stream != nullptr) {
    COLL_TRY(coll::check_stream(stream));
    call.stream = stream->stream.get();
  }
  return group.add(std::move(call));
}

/// Runs it here, or, checked at the door, later on the stream.
Status issue(coll_comm_t comm, coll_stream_t stream, const Request& request) {
  if (comm == nullptr) return coll::null_argument(request.call.name().c_str(), "comm");
  coll::Communicator& communicator = *comm->communicator;
  if (stream == nullptr) return communicator.run(request);
  COLL_TRY(coll::check_request(request, communicator.rank(), communicator.size()));
  COLL_TRY(communicator.status());
  COLL_TRY(coll::check_stream(stream));
  stream->stream->enqueue(communicator, request);
  return {};
}

/// Every operation's way: to run here, or checked at the door, later on the stream or with its
/// group.
coll_status_t perform(coll_comm_t comm, coll_stream_t stream, const Request& request) {
  return guarded([&]() -> Status {
    if (coll::OpenGroup* const group = coll::OpenGroup::of_thread()) [[unlikely]] {
      return collect(*group, [&] {
        return add_to(
            *group, comm, stream,
            {.request = request, .blocks = nullptr, .waits = stream == nullptr, .works = {}});
      });
    }
    if (comm != nullptr && stream == nullptr) [[likely]] {
      return comm->communicator->run(request);
    }
    return issue(comm, stream, request);
  });
}

/// The same for unequal blocks.
coll_status_t perform(coll_comm_t comm, coll_stream_t stream, const UnequalCall& given) {
  return guarded([&]() -> Status {
    coll::OpenGroup* const group = coll::OpenGroup::of_thread();
    const auto body = [&]() -> Status {
      if (comm == nullptr) return coll::null_argument(given.call.name().c_str(), "comm");
      coll::Communicator& communicator = *comm->communicator;
      COLL_ASSIGN(const coll::UnequalRequest made,
                  coll::unequal_request(given, communicator.rank(), communicator.size()));
      if (group == nullptr) return issue(comm, stream, made.request);
      return add_to(*group, comm, stream,
                    {.request = made.request,
                     .blocks = made.blocks,
                     .waits = stream == nullptr,
                     .works = {}});
    };
    return group == nullptr ? body() : collect(*group, body);
  });
}

coll::Call call_of(Collective collective, std::size_t count, coll_dtype_t type, coll_op_t op,
                   int root) {
  coll::Call call;
  call.collective = collective;
  // Unknown values stay unknown when they are narrowed; the door refuses them.
  call.type = static_cast<coll::DataType>(std::min<unsigned>(type, 0xff));
  call.op = static_cast<coll::ReduceOp>(std::min<unsigned>(op, 0xff));
  call.root = root;
  call.count = count;
  return call;
}

coll::Call unequal_call_of(Collective collective, coll_dtype_t type, coll_op_t op, int root) {
  coll::Call call = call_of(collective, 0, type, op, root);
  call.unequal = true;
  return call;
}

Request request_of(Collective collective, const void* send, void* recv, std::size_t count,
                   coll_dtype_t type, coll_op_t op, int root) {
  Request request;
  request.call = call_of(collective, count, type, op, root);
  request.input = send;
  request.output = recv;
  return request;
}

/// The call, if it was initialised as this version asks.
coll::Result<coll_call_t> read_call(const coll_call_t* given) {
  if (given == nullptr) return coll::null_argument("coll_start", "call");
  coll_call_t call = COLL_CALL_INIT;
  if (given->size < sizeof call || given->version == 0) {
    return failed(Code::invalid_argument, "coll_start: the call is not initialised",
                  "begin with coll_call_t call = COLL_CALL_INIT");
  }
  std::memcpy(&call, given, sizeof call);
  int operation = 0;  // C may pass any; to read it as one of the names would be undefined
  std::memcpy(&operation, &given->operation, sizeof operation);
  if (operation < 0 || operation >= COLL_OPERATION_COUNT) {
    return failed(Code::invalid_argument,
                  "coll_start: unknown operation " + std::to_string(operation),
                  "see coll_operation_t");
  }
  if (std::isnan(call.deadline_s)) {
    return failed(Code::invalid_argument, "coll_start: deadline_s is not a number",
                  "give seconds, 0 for ever, or a negative number for the communicator's");
  }
  return call;
}

/// What the operation lacks says nothing: two calls that mean the same are equal.
coll::Result<coll::UnequalRequest> request_of(const coll_call_t& call,
                                              const coll::Communicator& communicator) {
  const auto what = static_cast<Collective>(call.operation);
  if (call.unequal != 0) {
    if (coll::whole_blocks(what, 2) == 1) {
      return failed(Code::invalid_argument,
                    "coll_start: " + std::string(name_of(what)) + " has no block for each rank",
                    "leave `unequal` 0");
    }
    coll::UnequalCall given{
        unequal_call_of(what, call.type, coll::reduces(what) ? call.op : COLL_SUM,
                        coll::has_root(what) ? call.root : 0),
        call.send,
        call.recv,
        call.send_counts,
        call.send_displs,
        call.recv_counts,
        call.recv_displs,
        call.count};
    return coll::unequal_request(given, communicator.rank(), communicator.size());
  }
  const bool nothing = what == Collective::barrier;
  return coll::UnequalRequest{
      request_of(what, what == Collective::recv || nothing ? nullptr : call.send,
                 what == Collective::send || nothing ? nullptr : call.recv,
                 nothing ? 0 : call.count, nothing ? COLL_INT8 : call.type,
                 coll::reduces(what) ? call.op : COLL_SUM, coll::has_root(what) ? call.root : 0),
      nullptr};
}

Status start(const coll_call_t* given, coll_comm_t comm, coll_stream_t stream, coll_work_t* work) {
  if (comm == nullptr) return coll::null_argument("coll_start", "comm");
  if (stream == nullptr && work == nullptr) return coll::null_argument("coll_start", "work");
  COLL_ASSIGN(const coll_call_t call, read_call(given));
  coll::Communicator& communicator = *comm->communicator;
  COLL_ASSIGN(const coll::UnequalRequest made, request_of(call, communicator));
  const Request& request = made.request;
  if (coll::OpenGroup* const group = coll::OpenGroup::of_thread()) {
    auto grouped = work != nullptr ? std::make_unique<coll_work>() : nullptr;
    if (grouped) grouped->work = std::make_shared<coll::Work>(communicator.engine());
    COLL_TRY(add_to(*group, comm, stream,
                    {.request = request,
                     .blocks = made.blocks,
                     .deadline_s = call.deadline_s,
                     .works = {grouped ? grouped->work : nullptr}}));
    if (work != nullptr) *work = grouped.release();
    return {};
  }
  COLL_TRY(coll::check_request(request, communicator.rank(), communicator.size()));
  COLL_TRY(communicator.status());
  if (stream != nullptr) COLL_TRY(coll::check_stream(stream));
  auto handle = work != nullptr ? std::make_unique<coll_work>() : nullptr;
  if (stream == nullptr) {
    COLL_ASSIGN(handle->work, coll::Work::start(communicator, request, call.deadline_s));
  } else {
    if (handle) handle->work = std::make_shared<coll::Work>(communicator.engine());
    stream->stream->enqueue(communicator, request, call.deadline_s,
                            handle ? handle->work : nullptr);
  }
  if (work != nullptr) *work = handle.release();
  return {};
}

}  // namespace

extern "C" {

coll_status_t coll_group_start(void) {
  return guarded([]() -> Status {
    coll::OpenGroup::start();
    return {};
  });
}

coll_status_t coll_group_end(void) {
  return guarded(coll::OpenGroup::end);
}

coll_status_t coll_group_cancel(void) {
  return guarded(coll::OpenGroup::cancel);
}

coll_status_t coll_start(const coll_call_t* call, coll_comm_t comm, coll_stream_t stream,
                         coll_work_t* work) {
  return guarded([&] {
    const auto body = [&] { return start(call, comm, stream, work); };
    coll::OpenGroup* const group = coll::OpenGroup::of_thread();
    return group == nullptr ? body() : collect(*group, body);
  });
}

coll_status_t coll_all_reduce(const void* send, void* recv, size_t count, coll_dtype_t type,
                              coll_op_t op, coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream, request_of(Collective::all_reduce, send, recv, count, type, op, 0));
}

coll_status_t coll_reduce(const void* send, void* recv, size_t count, coll_dtype_t type,
                          coll_op_t op, int root, coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream, request_of(Collective::reduce, send, recv, count, type, op, root));
}

coll_status_t coll_broadcast(const void* send, void* recv, size_t count, coll_dtype_t type,
                             int root, coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::broadcast, send, recv, count, type, COLL_SUM, root));
}

coll_status_t coll_all_gather(const void* send, void* recv, size_t count, coll_dtype_t type,
                              coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::all_gather, send, recv, count, type, COLL_SUM, 0));
}

coll_status_t coll_reduce_scatter(const void* send, void* recv, size_t count, coll_dtype_t type,
                                  coll_op_t op, coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::reduce_scatter, send, recv, count, type, op, 0));
}

coll_status_t coll_all_to_all(const void* send, void* recv, size_t count, coll_dtype_t type,
                              coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::all_to_all, send, recv, count, type, COLL_SUM, 0));
}

coll_status_t coll_gather(const void* send, void* recv, size_t count, coll_dtype_t type, int root,
                          coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::gather, send, recv, count, type, COLL_SUM, root));
}

coll_status_t coll_scatter(const void* send, void* recv, size_t count, coll_dtype_t type, int root,
                           coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::scatter, send, recv, count, type, COLL_SUM, root));
}

coll_status_t coll_all_gatherv(const void* send, void* recv, const size_t* counts,
                               const size_t* displs, coll_dtype_t type, coll_comm_t comm,
                               coll_stream_t stream) {
  return perform(comm, stream,
                 UnequalCall{.call = unequal_call_of(Collective::all_gather, type, COLL_SUM, 0),
                             .send = send,
                             .recv = recv,
                             .recv_counts = counts,
                             .recv_displs = displs});
}

coll_status_t coll_reduce_scatterv(const void* send, void* recv, const size_t* counts,
                                   const size_t* displs, coll_dtype_t type, coll_op_t op,
                                   coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 UnequalCall{.call = unequal_call_of(Collective::reduce_scatter, type, op, 0),
                             .send = send,
                             .recv = recv,
                             .send_counts = counts,
                             .send_displs = displs});
}

coll_status_t coll_all_to_allv(const void* send, const size_t* send_counts,
                               const size_t* send_displs, void* recv, const size_t* recv_counts,
                               const size_t* recv_displs, coll_dtype_t type, coll_comm_t comm,
                               coll_stream_t stream) {
  return perform(comm, stream,
                 UnequalCall{.call = unequal_call_of(Collective::all_to_all, type, COLL_SUM, 0),
                             .send = send,
                             .recv = recv,
                             .send_counts = send_counts,
                             .send_displs = send_displs,
                             .recv_counts = recv_counts,
                             .recv_displs = recv_displs});
}

coll_status_t coll_gatherv(const void* send, size_t count, void* recv, const size_t* counts,
                           const size_t* displs, coll_dtype_t type, int root, coll_comm_t comm,
                           coll_stream_t stream) {
  return perform(comm, stream,
                 UnequalCall{.call = unequal_call_of(Collective::gather, type, COLL_SUM, root),
                             .send = send,
                             .recv = recv,
                             .recv_counts = counts,
                             .recv_displs = displs,
                             .count = count});
}

coll_status_t coll_scatterv(const void* send, const size_t* counts, const size_t* displs,
                            void* recv, size_t count, coll_dtype_t type, int root, coll_comm_t comm,
                            coll_stream_t stream) {
  return perform(comm, stream,
                 UnequalCall{.call = unequal_call_of(Collective::scatter, type, COLL_SUM, root),
                             .send = send,
                             .recv = recv,
                             .send_counts = counts,
                             .send_displs = displs,
                             .count = count});
}

coll_status_t coll_send(const void* send, size_t count, coll_dtype_t type, int peer,
                        coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::send, send, nullptr, count, type, COLL_SUM, peer));
}

coll_status_t coll_recv(void* recv, size_t count, coll_dtype_t type, int peer, coll_comm_t comm,
                        coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::recv, nullptr, recv, count, type, COLL_SUM, peer));
}

coll_status_t coll_barrier(coll_comm_t comm, coll_stream_t stream) {
  return perform(comm, stream,
                 request_of(Collective::barrier, nullptr, nullptr, 0, COLL_INT8, COLL_SUM, 0));
}

}  // extern "C"
