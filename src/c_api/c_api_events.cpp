// SPDX-License-Identifier: Apache-2.0
// The C ABI's events.
#include "c_api/c_api_door.hpp"
#include "c_api/open_group.hpp"

using coll::Code;
using coll::failed;
using coll::guarded;
using coll::null_argument;
using coll::refuse_null;
using coll::Status;

namespace {

/// In a child made by fork nobody ends what its parent's events stand for.
Status check_event(const char* function, coll_event_t event) {
  if (event == nullptr) return null_argument(function, "event");
  if (event->forks == coll::LiveCommunicators::of_process().forks()) return {};
  return failed(
      Code::invalid_usage,
      "the event belongs to the process that made it; this is a child of it, made by fork",
      "make an event in the child");
}

/// An open group will put its operations on the stream later: an event would not see them.
Status check_both(const char* function, coll_event_t event, coll_stream_t stream) {
  COLL_TRY(check_event(function, event));
  if (stream == nullptr) return null_argument(function, "stream");
  COLL_TRY(coll::check_stream(stream));
  if (stream->device_stream) {
    return failed(
        Code::unsupported,
        std::string(function) + ": the stream is one of CUDA's, which have events of theirs",
        "use cuEventRecord and cuStreamWaitEvent");
  }
  return coll::OpenGroup::check_free(
      function, [&](const coll::GroupedCall& call) { return call.stream == stream->stream.get(); });
}

}  // namespace

extern "C" {

coll_status_t coll_event_create(coll_event_t* event) {
  if (event == nullptr) return refuse_null("coll_event_create", "event");
  return guarded([&]() -> Status {
    *event = new coll_event;
    return {};
  });
}

coll_status_t coll_event_destroy(coll_event_t event) {
  return guarded([&]() -> Status {
    COLL_TRY(check_event("coll_event_destroy", event));
    delete event;
    return {};
  });
}

coll_status_t coll_event_record(coll_event_t event, coll_stream_t stream) {
  return guarded([&]() -> Status {
    COLL_TRY(check_both("coll_event_record", event, stream));
    event->event.record(*stream->stream);
    return {};
  });
}

coll_status_t coll_stream_wait_event(coll_stream_t stream, coll_event_t event) {
  return guarded([&]() -> Status {
    COLL_TRY(check_both("coll_stream_wait_event", event, stream));
    event->event.hold_back(*stream->stream);
    return {};
  });
}

coll_status_t coll_event_query(coll_event_t event) {
  return guarded([&]() -> Status {
    COLL_TRY(check_event("coll_event_query", event));
    if (event->event.reached()) return {};
    return failed(Code::in_progress, "operations before the event are outstanding");
  });
}

coll_status_t coll_event_synchronize(coll_event_t event) {
  return guarded([&]() -> Status {
    COLL_TRY(check_event("coll_event_synchronize", event));
    event->event.wait();
    return {};
  });
}

}  // extern "C"
