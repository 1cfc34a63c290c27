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

Pending Traffic::all_reduce(void* data, std::size_t count, Format format) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_REDUCE;
  call.send = data;
  call.recv = data;
  call.count = count;
  call.type = dtype_of(format);
  return start(call, "all_reduce", count * bytes_of(format));
}

Pending Traffic::reduce_scatter(const void* send, void* recv, std::size_t count, Format format) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_REDUCE_SCATTER;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = dtype_of(format);
  return start(call, "reduce_scatter", ranks() * count * bytes_of(format));
}

Pending Traffic::all_gather(const void* send, void* recv, std::size_t count, Format format) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_GATHER;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = dtype_of(format);
  return start(call, "all_gather", ranks() * count * bytes_of(format));
}

void Traffic::wait(Pending& pending) {
  if (!pending) return;
  const auto operation = std::move(pending.operation_);
  const auto begin = Clock::now();
  value_of(operation->work.wait());
  const auto end = Clock::now();
  const Clock::time_point ended{Clock::duration(operation->end.load())};
  times_.exposed += std::chrono::duration<double>(end - begin).count();
  times_.busy += std::chrono::duration<double>(ended - operation->begin).count();
  if (observer_) observer_(operation->name, operation->bytes, operation->begin, ended);
}

}  // namespace training
