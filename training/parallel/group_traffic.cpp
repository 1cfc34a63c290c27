// SPDX-License-Identifier: Apache-2.0
// Starts operations with handles, and takes their times.
#include "group_traffic.hpp"

namespace training {

Pending::~Pending() {
  // After a failure of the communicator this returns at once.
  if (operation_ != nullptr) (void)operation_->work.wait();
}

Pending Traffic::start(const coll_call_t& call, const char* name, std::size_t bytes) {
  Pending pending;
  pending.operation_ = std::make_unique<Pending::Operation>();
  Pending::Operation& operation = *pending.operation_;
  operation.name = name;
  operation.bytes = bytes;
  operation.begin = Clock::now();
  coll_work_t work = nullptr;
  value_of(collectives::detail::result(coll_start(&call, comm_.get(), nullptr, &work)));
  operation.work = collectives::Work(work);
  const auto ended = [](void* context, coll_status_t /*status*/) {
    static_cast<std::atomic<Clock::rep>*>(context)->store(Clock::now().time_since_epoch().count());
  };
  value_of(collectives::detail::result(coll_work_on_end(work, ended, &operation.end)));
  return pending;
}

Pending Traffic::start(coll_operation_t operation, const Moved& moved, const char* name,
                       std::size_t whole) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = operation;
  call.send = moved.send;
  call.recv = moved.recv;
  call.count = moved.count;
  call.type = dtype_of(moved.format);
  return start(call, name, whole * bytes_of(moved.format));
}

Pending Traffic::all_reduce(void* data, std::size_t count, Format format) {
  return start(COLL_ALL_REDUCE, {data, data, count, format}, "all_reduce", count);
}

Pending Traffic::reduce_scatter(const void* send, void* recv, std::size_t count, Format format) {
  return start(COLL_REDUCE_SCATTER, {send, recv, count, format}, "reduce_scatter", ranks() * count);
}

Pending Traffic::all_gather(const void* send, void* recv, std::size_t count, Format format) {
  return start(COLL_ALL_GATHER, {send, recv, count, format}, "all_gather", ranks() * count);
}

void Traffic::wait(Pending& pending) {
  if (!pending) return;
  const auto operation = std::move(pending.operation_);
  const auto begin = Clock::now();
  value_of(operation->work.wait());
  const auto end = Clock::now();
  const Clock::time_point ended{Clock::duration(operation->end.load())};
  times_.exposed += seconds_between(begin, end);
  times_.busy += seconds_between(operation->begin, ended);
  if (observer_) observer_(operation->name, operation->bytes, operation->begin, ended);
}

}  // namespace training
