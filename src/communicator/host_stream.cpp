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
  wait_for(enqueued_.load(std::memory_order_acquire));
}

void HostStream::enqueue(Communicator& communicator, const Request& request, double deadline_s,
                         std::shared_ptr<Work> work) {
  Engine& engine = communicator.engine();
  {
    const std::unique_lock lock = lock_with_room();
    const std::uint64_t number = enqueued_.load(std::memory_order_relaxed) + 1;
    std::unique_ptr<Block>& block = blocks_[number % kCapacity / kBlock];
    if (!block) block = std::make_unique<Block>();
    StreamCall& call = place_of(number);
    call.renew(request, this, deadline_s);
    call.number = number;
    call.engine = &engine;
    call.work = std::move(work);
    enqueued_.store(number, std::memory_order_release);
    engine.issue(call, helper_);
  }
  engine.drive_first(*helper_);
}

/// Locks for enqueueing once there is room for one more; nobody is kept waiting meanwhile.
std::unique_lock<std::mutex> HostStream::lock_with_room() {
  while (true) {
    std::unique_lock lock(enqueue_mutex_);
    const std::uint64_t number = enqueued_.load(std::memory_order_relaxed) + 1;
    if (number - ended_.load(std::memory_order_acquire) <= kCapacity) return lock;
    lock.unlock();
    wait_for(number - kCapacity);
  }
}

bool HostStream::may_start(const OpenCall& call) const noexcept {
  return static_cast<const StreamCall&>(call).number - 1 == ended_.load(std::memory_order_acquire);
}

void HostStream::on_end(OpenCall& call) noexcept {
  auto& ending = static_cast<StreamCall&>(call);
  if (const std::shared_ptr<Work> work = std::move(ending.work)) work->finish(call.status);
  const std::uint64_t number = ending.number;
  const std::lock_guard lock(end_mutex_);
  if (!call.status.ok() && failure_.ok()) failure_ = std::move(call.status);
  ended_.store(number, std::memory_order_release);  // from now on `call` may be another one
  // The next call cannot end before this mutex is free, so its engine is there.
  if (number < enqueued_.load(std::memory_order_acquire)) {
    place_of(number + 1).engine->notice_ready();
  }
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
  wait_for(enqueued_.load(std::memory_order_acquire));
  return take_failure();
}

Status HostStream::query() {
  const std::uint64_t last = enqueued_.load(std::memory_order_acquire);
  if (ended_.load(std::memory_order_acquire) < last) {
    return failed(Code::in_progress, "operations are outstanding");
  }
  return take_failure();
}

}  // namespace coll
