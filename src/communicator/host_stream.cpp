// SPDX-License-Identifier: Apache-2.0
// The host stream, operations that run later, in order.
#include "communicator/host_stream.hpp"

#include "sys/own_thread.hpp"

namespace coll {

Result<std::unique_ptr<HostStream>> HostStream::create() {
  std::unique_ptr<HostStream> stream(new HostStream);
  COLL_ASSIGN(stream->thread_, start_thread("coll-stream", "for a stream's operations",
                                            [raw = stream.get()] { raw->work(); }));
  return stream;
}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void HostStream::enqueue(Communicator& communicator, const Request& request) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return enqueued_ - finished_ < kCapacity; });
  items_[enqueued_ % kCapacity] = {&communicator, request, communicator.take_turn()};
  ++enqueued_;
  lock.unlock();
  changed_.notify_all();
}

void HostStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return finished_ != enqueued_ || closing_; });
    if (finished_ == enqueued_) return;
    const Item item = items_[finished_ % kCapacity];
    lock.unlock();
    Status status = item.communicator->run_in_turn(item.request, item.turn);
    lock.lock();
    if (!status.ok() && failure_.ok()) failure_ = std::move(status);
    ++finished_;
    changed_.notify_all();
  }
}

Status HostStream::take_failure() {
  return std::exchange(failure_, Status{});
}

Status HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  const std::uint64_t last = enqueued_;
  changed_.wait(lock, [&] { return finished_ >= last; });
  return take_failure();
}

Status HostStream::query() {
  const std::lock_guard lock(mutex_);
  if (finished_ != enqueued_) return failed(Code::in_progress, "operations are outstanding");
  return take_failure();
}

}  // namespace coll
