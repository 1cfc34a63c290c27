// SPDX-License-Identifier: Apache-2.0
// The C ABI's groups, and operations with a handle.
#include <cmath>
#include <cstring>
#include <memory>

#include "c_api/c_api_requests.hpp"
#include "communicator/calls/call_digest.hpp"
#include "communicator/calls/unequal_call.hpp"

using coll::Code;
using coll::Collective;
using coll::failed;
using coll::guarded;
using coll::Request;
using coll::Status;

namespace {

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

/// The factor before a sum, if there is one, and the tag.
coll::Result<coll::Extras> extras_of(const coll_call_t& call) {
  coll::Extras extras;
  extras.tag = call.tag;
  if (call.operation == COLL_RECV) extras.message = call.message;
  const auto what = static_cast<Collective>(call.operation);
  if (call.factor == nullptr || !coll::reduces(what)) return extras;
  const std::string name = "coll_start: " + std::string(name_of(what));
  if (call.op != COLL_SUM) {
    return failed(Code::invalid_argument, name + ": a factor belongs to a sum",
                  "use COLL_SUM, or leave `factor` null");
  }
  if (call.type == COLL_BOOL) {
    return failed(Code::invalid_argument, name + ": bool has no factors",
                  "use another type, or leave `factor` null");
  }
  coll::Factor& factor = extras.factor.emplace();
  if (call.factor_late != 0) {
    factor.late = call.factor;
  } else if (call.type >= 0 && call.type < COLL_DTYPE_COUNT) {  // the door refuses the others
    std::memcpy(factor.value.data(), call.factor,
                coll::size_of(static_cast<coll::DataType>(call.type)));
  }
  return extras;
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
        coll::unequal_call_of(what, call.type, coll::reduces(what) ? call.op : COLL_SUM,
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
  Request request = coll::request_of(
      what, what == Collective::recv || nothing ? nullptr : call.send,
      what == Collective::send || nothing ? nullptr : call.recv, nothing ? 0 : call.count,
      nothing ? COLL_INT8 : call.type, coll::reduces(what) ? call.op : COLL_SUM,
      coll::has_root(what) ? call.root : 0);
  if (call.tagged == 0) return coll::UnequalRequest{request, nullptr};
  if (!request.call.is_pair()) {
    return failed(Code::invalid_argument,
                  "coll_start: " + std::string(name_of(what)) + " has no tag", "leave `tagged` 0");
  }
  request.call.form = coll::CallForm::tagged;
  return coll::UnequalRequest{request, nullptr};
}

Status start(coll::OpenGroup* group, const coll_call_t* given, coll_comm_t comm,
             coll_stream_t stream, coll_work_t* work) {
  if (comm == nullptr) return coll::null_argument("coll_start", "comm");
  if (stream == nullptr && work == nullptr) return coll::null_argument("coll_start", "work");
  COLL_ASSIGN(const coll_call_t call, read_call(given));
  coll::Communicator& communicator = *comm->communicator;
  COLL_ASSIGN(coll::UnequalRequest made, request_of(call, communicator));
  COLL_ASSIGN(const coll::Extras extras, extras_of(call));
  if (made.request.call.tagged() || extras.factor) made.request.extras = &extras;
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
