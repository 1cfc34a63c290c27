// SPDX-License-Identifier: Apache-2.0
// The C ABI's tagged messages.
#include <cmath>

#include "c_api/c_api_requests.hpp"

using coll::Code;
using coll::Collective;
using coll::failed;
using coll::guarded;
using coll::Request;
using coll::request_of;
using coll::Status;
using coll::tagged_request;

namespace {

coll_status_t perform_tagged(coll_comm_t comm, coll_stream_t stream, const Request& request) {
  return guarded([&] {
    return coll::in_group(
        [&](coll::OpenGroup* group) { return coll::add_or_issue(group, comm, stream, request); });
  });
}

}  // namespace

extern "C" {

coll_status_t coll_send_tagged(const void* send, size_t count, coll_dtype_t type, int peer, int tag,
                               coll_comm_t comm, coll_stream_t stream) {
  return perform_tagged(
      comm, stream,
      tagged_request(request_of(Collective::send, send, nullptr, count, type, COLL_SUM, peer),
                     {.tag = tag, .message = nullptr, .factor = {}}));
}

coll_status_t coll_recv_tagged(void* recv, size_t count, coll_dtype_t type, int peer, int tag,
                               coll_message_t* message, coll_comm_t comm, coll_stream_t stream) {
  return perform_tagged(
      comm, stream,
      tagged_request(request_of(Collective::recv, nullptr, recv, count, type, COLL_SUM, peer),
                     {.tag = tag, .message = message, .factor = {}}));
}

coll_status_t coll_probe(int peer, int tag, double timeout_s, coll_message_t* message,
                         coll_comm_t comm) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return coll::null_argument("coll_probe", "comm");
    COLL_TRY(coll::check_filled("coll_probe", "message", "COLL_MESSAGE_INIT", message));
    if (std::isnan(timeout_s)) {
      return failed(Code::invalid_argument, "coll_probe: timeout_s is not a number",
                    "give seconds, 0 to look once, or a negative number to wait");
    }
    return comm->communicator->probe(
        tagged_request(request_of(Collective::recv, nullptr, nullptr, 0, COLL_INT8, COLL_SUM, peer),
                       {.tag = tag, .message = message, .factor = {}}),
        timeout_s);
  });
}

coll_status_t coll_work_cancel(coll_work_t work) {
  return guarded([&]() -> Status {
    COLL_TRY(coll::check_work("coll_work_cancel", work));
    return work->work->cancel();
  });
}

}  // extern "C"
