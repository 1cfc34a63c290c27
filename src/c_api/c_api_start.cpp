// SPDX-License-Identifier: Apache-2.0
// The C ABI's groups, and operations with a handle.
#include <memory>

#include "c_api/c_api_call.hpp"
#include "c_api/c_api_requests.hpp"

using coll::guarded;
using coll::Request;
using coll::Status;

namespace {

Status start(coll::OpenGroup* group, const coll_call_t* given, coll_comm_t comm,
             coll_stream_t stream, coll_work_t* work) {
  if (comm == nullptr) return coll::null_argument("coll_start", "comm");
  if (stream == nullptr && work == nullptr) return coll::null_argument("coll_start", "work");
  COLL_ASSIGN(const coll_call_t call, coll::read_call("coll_start", given));
  coll::Communicator& communicator = *comm->communicator;
  COLL_ASSIGN(coll::UnequalRequest made, coll::request_of("coll_start", call, communicator));
  COLL_ASSIGN(const coll::Extras extras, coll::extras_of("coll_start", call));
  if (made.request.call.tagged() || extras.any()) made.request.extras = &extras;
  const Request& request = made.request;
  if (group != nullptr) {
    auto grouped = work != nullptr ? std::make_unique<coll_work>() : nullptr;
    if (grouped) grouped->work = std::make_shared<coll::Work>(communicator.engine());
    COLL_TRY(coll::add_to(*group, comm, stream,
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
    return coll::in_group(
        [&](coll::OpenGroup* group) { return start(group, call, comm, stream, work); });
  });
}

}  // extern "C"
