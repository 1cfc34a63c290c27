// SPDX-License-Identifier: Apache-2.0
// The C ABI's groups, and operations with a handle.
#include <memory>
#include <utility>

#include "c_api/c_api_call.hpp"
#include "c_api/c_api_requests.hpp"

using coll::guarded;
using coll::Request;
using coll::Status;

namespace {

/// A request and what it points to.
struct Made {
  coll::UnequalRequest of;
  coll::Extras extras;
  double deadline_s;

  [[nodiscard]] Request request() const {
    Request request = of.request;
    if (request.call.tagged() || extras.any()) request.extras = &extras;
    return request;
  }
};

coll::Result<Made> make(const char* function, const coll_call_t* given, coll_comm_t comm) {
  if (comm == nullptr) return coll::null_argument(function, "comm");
  COLL_ASSIGN(const coll_call_t call, coll::read_call(function, given));
  COLL_ASSIGN(coll::UnequalRequest of, coll::request_of(function, call, *comm->communicator));
  COLL_ASSIGN(coll::Extras extras, coll::extras_of(function, call));
  return Made{std::move(of), std::move(extras), call.deadline_s};
}

Status start(coll::OpenGroup* group, const coll_call_t* given, coll_comm_t comm,
             coll_stream_t stream, coll_work_t* work) {
  COLL_ASSIGN(const Made made, make("coll_start", given, comm));
  if (stream == nullptr && work == nullptr) return coll::null_argument("coll_start", "work");
  coll::Communicator& communicator = *comm->communicator;
  const Request request = made.request();
  auto handle = work != nullptr ? std::make_unique<coll_work>() : nullptr;
  if (group != nullptr) {
    if (handle) handle->work = std::make_shared<coll::Work>(communicator.engine());
    COLL_TRY(coll::add_to(*group, comm, stream,
                          {.request = request,
                           .blocks = made.of.blocks,
                           .deadline_s = made.deadline_s,
                           .works = {handle ? handle->work : nullptr}}));
    if (work != nullptr) *work = handle.release();
    return {};
  }
  COLL_TRY(coll::check_request(request, communicator.rank(), communicator.size()));
  COLL_TRY(communicator.status());
  if (stream != nullptr) COLL_TRY(coll::check_stream(stream));
  if (stream == nullptr) {
    COLL_ASSIGN(handle->work, coll::Work::start(communicator, request, made.deadline_s));
  } else if (stream->device_stream) {
    if (handle) return coll::no_handle();
    return stream->device_stream->enqueue(communicator, request, made.deadline_s);
  } else {
    if (handle) handle->work = std::make_shared<coll::Work>(communicator.engine());
    stream->stream->enqueue(communicator, request, made.deadline_s,
                            handle ? handle->work : nullptr);
  }
  if (work != nullptr) *work = handle.release();
  return {};
}

Status run(coll::OpenGroup* group, const coll_call_t* given, coll_comm_t comm) {
  COLL_ASSIGN(const Made made, make("coll_run", given, comm));
  const Request request = made.request();
  if (group == nullptr) return comm->communicator->run_queued(request, made.deadline_s);
  return coll::add_to(*group, comm, nullptr,
                      {.request = request,
                       .blocks = made.of.blocks,
                       .deadline_s = made.deadline_s,
                       .waits = true,
                       .works = {}});
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

coll_status_t coll_run(const coll_call_t* call, coll_comm_t comm) {
  return guarded([&] {
    return coll::in_group([&](coll::OpenGroup* group) { return run(group, call, comm); });
  });
}

}  // extern "C"
