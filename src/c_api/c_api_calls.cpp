// SPDX-License-Identifier: Apache-2.0
// The C ABI's operations.
#include "c_api/c_api_requests.hpp"
#include "communicator/calls/unequal_call.hpp"

using coll::Collective;
using coll::guarded;
using coll::Request;
using coll::request_of;
using coll::Status;
using coll::unequal_call_of;
using coll::UnequalCall;

namespace {

coll_status_t perform(coll_comm_t comm, coll_stream_t stream, const Request& request) {
  return guarded([&] {
    return coll::in_group([&](coll::OpenGroup* group) -> Status {
      if (group == nullptr && comm != nullptr && stream == nullptr) [[likely]] {
        return comm->communicator->run(request);
      }
      return coll::add_or_issue(group, comm, stream, request);
    });
  });
}

/// The same for unequal blocks.
coll_status_t perform(coll_comm_t comm, coll_stream_t stream, const UnequalCall& given) {
  return guarded([&] {
    return coll::in_group([&](coll::OpenGroup* group) -> Status {
      if (comm == nullptr) return coll::null_argument(given.call.name().c_str(), "comm");
      coll::Communicator& communicator = *comm->communicator;
      COLL_ASSIGN(coll::UnequalRequest made,
                  coll::unequal_request(given, communicator.rank(), communicator.size()));
      return coll::add_or_issue(group, comm, stream, made.request, std::move(made.blocks));
    });
  });
}

}  // namespace

extern "C" {

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
