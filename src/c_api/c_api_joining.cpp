// SPDX-License-Identifier: Apache-2.0
// The C ABI's joins that do not block.
#include "c_api/c_api_joining.hpp"

#include <chrono>
#include <cmath>
#include <utility>

#include "sys/clock.hpp"
#include "sys/own_thread.hpp"

using coll::Code;
using coll::failed;
using coll::guarded;
using coll::null_argument;
using coll::Status;

namespace {

/// In a child made by fork nobody joins for its parent.
Status check_joining(const char* function, const coll_joining* joining) {
  if (joining == nullptr) return null_argument(function, "joining");
  if (joining->forks == coll::LiveCommunicators::of_process().forks()) return {};
  return failed(
      Code::invalid_usage,
      "the joining belongs to the process that made it; this is a child of it, made by fork");
}

Status wait_for(coll_joining& joining, double timeout_s, coll_comm_t* comm) {
  std::unique_lock lock(joining.mutex);
  const auto ended = [&] { return joining.ended; };
  if (timeout_s < 0) {
    joining.over.wait(lock, ended);
  } else if (!joining.over.wait_until(lock, coll::after(timeout_s), ended)) {
    return failed(Code::in_progress, "the ranks are still joining");
  }
  COLL_TRY(joining.status);
  if (std::exchange(joining.handed_out, true)) {
    return failed(Code::invalid_usage,
                  "coll_joining_wait: the communicator was handed out by an earlier call",
                  "wait once, and keep what it gives");
  }
  *comm = joining.made.release();
  return {};
}

}  // namespace

coll_joining::~coll_joining() {
  if (thread.joinable()) thread.join();
}

Status coll::carry_out(coll_joining_t* handle, Join join, coll_comm_t* comm) {
  if (handle == nullptr) return join(comm);
  auto joining = std::make_unique<coll_joining>();
  const auto run = [to = joining.get(), join = std::move(join)] {
    coll_comm_t made = nullptr;
    Status status = caught([&] { return join(&made); });
    const std::lock_guard lock(to->mutex);
    to->made.reset(made);
    to->status = std::move(status);
    to->ended = true;
    to->over.notify_all();
  };
  COLL_ASSIGN(joining->thread, start_thread("coll-join", "that joins a communicator", run));
  *comm = nullptr;
  *handle = joining.release();
  return {};
}

extern "C" {

coll_status_t coll_joining_wait(coll_joining_t joining, double timeout_s, coll_comm_t* comm) {
  return guarded([&]() -> Status {
    COLL_TRY(check_joining("coll_joining_wait", joining));
    if (comm == nullptr) return null_argument("coll_joining_wait", "comm");
    if (std::isnan(timeout_s)) {
      return failed(Code::invalid_argument, "coll_joining_wait: timeout_s is not a number",
                    "give seconds, 0 to look once, or a negative number to wait");
    }
    return wait_for(*joining, timeout_s, comm);
  });
}

coll_status_t coll_joining_free(coll_joining_t joining) {
  if (joining == nullptr) return COLL_SUCCESS;
  return guarded([&]() -> Status {
    COLL_TRY(check_joining("coll_joining_free", joining));
    delete joining;
    return {};
  });
}

}  // extern "C"
