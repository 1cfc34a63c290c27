// SPDX-License-Identifier: Apache-2.0
// The host stream: operations that run later, in order.
#include "communicator/host_stream.hpp"

#include <utility>

namespace coll {

Result<std::unique_ptr<HostStream>> HostStream::create() {
  std::unique_ptr<HostStream> stream(new HostStream);
  COLL_ASSIGN(stream->helper_, ProgressThread::of_process());
  return stream;
}

HostStream::~HostStream() {
  wait_for(enqueued_);
}

void HostStream::enqueue(Communicator& communicator, const Request& request, double deadline_s,
                         std::shared_ptr<Work> work) {
  const std::lock_guard lock(enqueue_mutex_);
  const std::uint64_t number = enqueued_ + 1;
  if (number > kCapacity) wait_for(number - kCapacity);
  std::unique_ptr<Block>& block = blocks_[number % kCapacity / kBlock];
  if (!block) block = std::make_unique<Block>();
  StreamCall& call = place_of(number);
  call.renew(request, this, deadline_s);
  call.number = number;
  call.engine = &communicator.engine();
  call.work = std::move(work);
  enqueued_ = number;
  call.engine->issue(call, helper_);
}

bool HostStream::may_start(const OpenCall& call) const noexcept {
  return static_cast<const StreamCall&>(call).number - 1 == ended_.load(std::memory_order_acquire);
}

void HostStream::on_end(OpenCall& call) noexcept {
  auto& ended = static_cast<StreamCall&>(call);
  if (const std::shared_ptr<Work> work = std::move(ended.work)) work->finish(call.status);
  const std::lock_guard lock(end_mutex_);
  if (!call.status.ok() && failure_.ok()) failure_ = std::move(call.status);
  ended_.store(ended.number, std::memory_order_release);
}

/// The waiting thread drives the engine of the oldest call, then that of the next.
void HostStream::wait_for(std::uint64_t number) noexcept {
  while (true) {
    std::unique_lock lock(end_mutex_);
    const std::uint64_t oldest = ended_.load(std::memory_order_relaxed) + 1;
    if (oldest > number) return;
    Engine& engine = *place_of(oldest).engine;
    const Engine::Guest guest(engine);  // now, while the call keeps the engine alive
    lock.unlock();
    engine.drive_until([&] { return ended_.load(std::memory_order_acquire) >= oldest; });
  }
}

Status HostStream::take_failure() {
  const std::lock_guard lock(end_mutex_);
  return std::exchange(failure_, Status{});
}

Status HostStream::synchronize() {
  std::uint64_t last = 0;
  {
    const std::lock_guard lock(enqueue_mutex_);
    last = enqueued_;
  }
  wait_for(last);
  return take_failure();
}

Status HostStream::query() {
  {
    const std::lock_guard lock(enqueue_mutex_);
    if (ended_.load(std::memory_order_acquire) != enqueued_) {
      return failed(Code::in_progress, "operations are outstanding");
    }
  }
  return take_failure();
}

}  // namespace coll
