// SPDX-License-Identifier: Apache-2.0
// Short names for tagged messages of int64.
#pragma once
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include "c_api/api_calls.hpp"

namespace collectives::testing {

inline coll_call_t tagged(coll_operation_t operation, const void* send, void* recv,
                          std::size_t count, int peer, int tag) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = operation;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = COLL_INT64;
  call.root = peer;
  call.tagged = 1;
  call.tag = tag;
  return call;
}

inline coll_work_t start_send(const Values& values, int peer, int tag, coll_comm_t comm,
                              coll_stream_t stream = nullptr) {
  return start(tagged(COLL_SEND, values.data(), nullptr, values.size(), peer, tag), comm, stream);
}
inline coll_work_t start_recv(Values& values, int peer, int tag, coll_comm_t comm,
                              coll_stream_t stream = nullptr, coll_message_t* message = nullptr) {
  coll_call_t call = tagged(COLL_RECV, nullptr, values.data(), values.size(), peer, tag);
  call.message = message;
  return start(call, comm, stream);
}
inline coll_status_t send_tagged(const Values& values, int peer, int tag, coll_comm_t comm) {
  return coll_send_tagged(values.data(), values.size(), COLL_INT64, peer, tag, comm, nullptr);
}
inline coll_status_t recv_tagged(Values& values, int peer, int tag, coll_comm_t comm,
                                 coll_message_t* message = nullptr) {
  return coll_recv_tagged(values.data(), values.size(), COLL_INT64, peer, tag, message, comm,
                          nullptr);
}

}  // namespace collectives::testing
