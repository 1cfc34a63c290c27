// SPDX-License-Identifier: Apache-2.0
// The C ABI's streams and works.
#include <algorithm>
#include <cmath>

#include "c_api/c_api_door.hpp"
#include "c_api/open_group.hpp"

using coll::Code;
using coll::failed;
using coll::guarded;
using coll::null_argument;
using coll::refuse_null;
using coll::Status;

Status coll::check_stream(coll_stream_t stream) {
  if (stream->forks == coll::LiveCommunicators::of_process().forks()) return {};
  return failed(Code::invalid_usage,
                "the stream belongs to the process that made it; this is a child of it, made by "
                "fork, and has no thread that moves the stream's operations",
                "make a stream in the child");
}

/// In a child made by fork nobody moves its parent's operations.
Status coll::check_work(const char* function, coll_work_t work) {
  if (work == nullptr) return null_argument(function, "work");
  if (work->forks == coll::LiveCommunicators::of_process().forks()) return {};
  return failed(
      Code::invalid_usage,
      "the work belongs to the process that made it; this is a child of it, made by fork");
}

extern "C" {

coll_status_t coll_stream_create(coll_stream_t* stream) {
  if (stream == nullptr) return refuse_null("coll_stream_create", "stream");
  return guarded([&]() -> Status {
    COLL_ASSIGN(auto made, coll::HostStream::create());
    *stream = new coll_stream{.stream = std::move(made), .device_stream = nullptr};
    return {};
  });
}

coll_status_t coll_stream_from_cuda(coll_stream_t* stream, void* cuda_stream) {
  if (stream == nullptr) return refuse_null("coll_stream_from_cuda", "stream");
  return guarded([&]() -> Status {
    COLL_ASSIGN(auto made, coll::DeviceStream::wrap(cuda_stream));
    *stream = new coll_stream{.stream = nullptr, .device_stream = std::move(made)};
    return {};
  });
}

coll_status_t coll_stream_destroy(coll_stream_t stream) {
  if (stream == nullptr) return refuse_null("coll_stream_destroy", "stream");
  return guarded([&]() -> Status {
    COLL_TRY(coll::check_stream(stream));
    COLL_TRY(coll::OpenGroup::check_free("coll_stream_destroy", [&](const coll::GroupedCall& call) {
      return call.stream == stream->stream.get() &&
             call.device_stream == stream->device_stream.get();
    }));
    // Another handle may be of the same stream of CUDA: then this one's operations end here.
    if (stream->device_stream) stream->device_stream->finish();
    delete stream;
    return {};
  });
}

coll_status_t coll_stream_synchronize(coll_stream_t stream) {
  if (stream == nullptr) return refuse_null("coll_stream_synchronize", "stream");
  return guarded([&]() -> Status {
    COLL_TRY(coll::check_stream(stream));
    return stream->device_stream ? stream->device_stream->synchronize()
                                 : stream->stream->synchronize();
  });
}

coll_status_t coll_stream_query(coll_stream_t stream) {
  if (stream == nullptr) return refuse_null("coll_stream_query", "stream");
  return guarded([&]() -> Status {
    COLL_TRY(coll::check_stream(stream));
    return stream->device_stream ? stream->device_stream->query() : stream->stream->query();
  });
}

coll_status_t coll_work_test(coll_work_t work) {
  return guarded([&]() -> Status {
    COLL_TRY(coll::check_work("coll_work_test", work));
    return work->work->test();
  });
}

coll_status_t coll_work_wait(coll_work_t work, double timeout_s) {
  return guarded([&]() -> Status {
    COLL_TRY(coll::check_work("coll_work_wait", work));
    if (std::isnan(timeout_s)) {
      return failed(Code::invalid_argument, "coll_work_wait: timeout_s is not a number",
                    "give seconds, or a negative number to wait for ever");
    }
    COLL_TRY(coll::OpenGroup::check_free("coll_work_wait", [&](const coll::GroupedCall& call) {
      return call.works[0] == work->work;
    }));
    return work->work->wait(timeout_s);
  });
}

coll_status_t coll_work_abort(coll_work_t work) {
  return guarded([&]() -> Status {
    COLL_TRY(coll::check_work("coll_work_abort", work));
    COLL_TRY(coll::OpenGroup::check_free("coll_work_abort", [&](const coll::GroupedCall& call) {
      return std::ranges::find(call.works, work->work) != call.works.end();
    }));
    work->work->abort();
    return {};
  });
}

coll_status_t coll_work_on_end(coll_work_t work, void (*done)(void* context, coll_status_t status),
                               void* context) {
  return guarded([&]() -> Status {
    COLL_TRY(coll::check_work("coll_work_on_end", work));
    if (done == nullptr) return null_argument("coll_work_on_end", "done");
    return work->work->on_end([done, context](const Status& status) {
      const coll::OpenGroup::Hidden others;
      done(context, static_cast<coll_status_t>(status.code()));
    });
  });
}

coll_status_t coll_work_free(coll_work_t work) {
  delete work;
  return COLL_SUCCESS;
}

}  // extern "C"
