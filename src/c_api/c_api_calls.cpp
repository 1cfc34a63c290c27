// SPDX-License-Identifier: Apache-2.0
// The C ABI's operations, streams and memory.
#include <algorithm>

#include "c_api/c_api_door.hpp"
#include "communicator/engine/call_check.hpp"
#include "sys/memory/registered_memory.hpp"
#include "sys/memory/shared_arena.hpp"
#include "sys/memory/shared_segments.hpp"

using coll::Code;
using coll::Collective;
using coll::failed;
using coll::guarded;
using coll::refuse_null;
using coll::Request;
using coll::Status;

namespace {

Status check_stream(const coll_stream_t stream) {
  if (stream->forks == coll::LiveCommunicators::of_process().forks()) return {};
  return failed(Code::invalid_usage,
                "the stream belongs to the process that made it; this is a child of it, made by "
                "fork, without the stream's thread",
                "make a stream in the child");
}

/// Every operation's way: to run here, or checked at the door, later on the stream.
coll_status_t perform(coll_comm_t comm, coll_stream_t stream, const Request& request) {
  if (comm == nullptr) [[unlikely]] {
    return refuse_null(name_of(request.call.collective).data(), "comm");
  }
  return guarded([&]() -> Status {
    coll::Communicator& communicator = *comm->communicator;
    if (stream == nullptr) [[likely]] {
      return communicator.run(request);
    }
    COLL_TRY(coll::check_request(request, communicator.rank(), communicator.size()));
    COLL_TRY(communicator.status());
    COLL_TRY(check_stream(stream));
    stream->stream->enqueue(communicator, request);
    return {};
  });
}

Request request_of(Collective collective, const void* send, void* recv, std::size_t count,
                   coll_dtype_t type, coll_op_t op, int root) {
  Request request;
  request.call.collective = collective;
  // Unknown values stay unknown when they are narrowed; the door refuses them.
  request.call.type = static_cast<coll::DataType>(std::min<unsigned>(type, 0xff));
  request.call.op = static_cast<coll::ReduceOp>(std::min<unsigned>(op, 0xff));
  request.call.root = root;
  request.call.count = count;
  request.input = send;
  request.output = recv;
  return request;
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

coll_status_t coll_stream_create(coll_stream_t* stream) {
  if (stream == nullptr) return refuse_null("coll_stream_create", "stream");
  return guarded([&]() -> Status {
    COLL_ASSIGN(auto made, coll::HostStream::create());
    *stream = new coll_stream{std::move(made)};
    return {};
  });
}

coll_status_t coll_stream_destroy(coll_stream_t stream) {
  if (stream == nullptr) return refuse_null("coll_stream_destroy", "stream");
  return guarded([&]() -> Status {
    COLL_TRY(check_stream(stream));
    delete stream;
    return {};
  });
}

coll_status_t coll_stream_synchronize(coll_stream_t stream) {
  if (stream == nullptr) return refuse_null("coll_stream_synchronize", "stream");
  return guarded([&]() -> Status {
    COLL_TRY(check_stream(stream));
    return stream->stream->synchronize();
  });
}

coll_status_t coll_stream_query(coll_stream_t stream) {
  if (stream == nullptr) return refuse_null("coll_stream_query", "stream");
  return guarded([&]() -> Status {
    COLL_TRY(check_stream(stream));
    return stream->stream->query();
  });
}

coll_status_t coll_mem_alloc(void** memory, size_t bytes) {
  if (memory == nullptr) return refuse_null("coll_mem_alloc", "memory");
  return guarded([&]() -> Status {
    COLL_ASSIGN(coll::SharedArena * arena, coll::SharedArena::of_this_process());
    COLL_ASSIGN(*memory, arena->allocate(bytes));
    return {};
  });
}

coll_status_t coll_mem_free(void* memory) {
  if (memory == nullptr) return COLL_SUCCESS;
  return guarded([&]() -> Status {
    COLL_ASSIGN(coll::SharedArena * arena, coll::SharedArena::of_this_process());
    return arena->free(static_cast<std::byte*>(memory));
  });
}

coll_status_t coll_mem_register(const void* address, size_t bytes) {
  if (address == nullptr) return refuse_null("coll_mem_register", "address");
  return guarded([&]() -> Status {
    if (bytes == 0) {
      return failed(Code::invalid_argument, "coll_mem_register: bytes is 0",
                    "register memory where there is some");
    }
    return coll::register_memory(static_cast<const std::byte*>(address), bytes)
        .with_context("coll_mem_register");
  });
}

coll_status_t coll_mem_deregister(const void* address) {
  if (address == nullptr) return COLL_SUCCESS;
  return guarded([&]() -> Status {
    return coll::SharedSegments::remove(static_cast<const std::byte*>(address))
        .with_context("coll_mem_deregister");
  });
}

}  // extern "C"
