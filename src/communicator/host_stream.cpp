// SPDX-License-Identifier: Apache-2.0
// The host stream: operations that run later, in order.
#include "communicator/host_stream.hpp"

#include <thread>
#include <utility>

namespace coll {

Result<std::unique_ptr<HostStream>> HostStream::create() {
  std::unique_ptr<HostStream> stream(new HostStream);
  COLL_ASSIGN(stream->helper_, ProgressThread::of_process());
  return stream;
}

HostStream::~HostStream() {
  wait_for(enqueued_.load(std::memory_order_acquire));
  while (guests_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
}

void HostStream::enqueue(Communicator& communicator, const Request& request, double deadline_s,
                         std::shared_ptr<Work> work) {
  Engine& engine = communicator.engine();
  engine.await_program(request);
  {
    const std::unique_lock held = lock_with_room();
    const std::uint64_t number = prepare_place();
    StreamCall& call = place_of(number);
    call.renew(request, this, deadline_s, false);
    call.number = number;
    call.engine = &engine;
    call.work = std::move(work);
    call.group = nullptr;
    publish(number);
    engine.issue(call, helper_);
  }
  engine.drive_first(*helper_);
}

std::unique_lock<std::mutex> HostStream::lock_with_room() {
  std::unique_lock held = lock();
  while (!has_room()) {
    held.unlock();  // nobody is kept waiting meanwhile
    wait_for_room();
    held.lock();
  }
  return held;
}

bool HostStream::has_room() const {
  return enqueued_.load(std::memory_order_relaxed) - ended_.load(std::memory_order_acquire) <
         kCapacity;
}

void HostStream::wait_for_room() noexcept {
  const std::uint64_t next = enqueued_.load(std::memory_order_acquire) + 1;
  if (next > kCapacity) wait_for(next - kCapacity);
}

std::uint64_t HostStream::prepare_place() {
  const std::uint64_t number = enqueued_.load(std::memory_order_relaxed) + 1;
  std::unique_ptr<Block>& block = blocks_[number % kCapacity / kBlock];
  if (!block) block = std::make_unique<Block>();
  return number;
}

void HostStream::append(CallGroup& group, std::uint64_t number) noexcept {
  place_of(number).group = &group;
  publish(number);
}

/// Either the end of the operation before sees this one, and notices its engines, or this one sees
/// that end before it is issued.
void HostStream::publish(std::uint64_t number) noexcept {
  const std::lock_guard lock(end_mutex_);
  enqueued_.store(number, std::memory_order_release);
}

bool HostStream::may_start(const OpenCall& call) const noexcept {
  return is_turn_of(static_cast<const StreamCall&>(call).number);
}

bool HostStream::tells(const OpenCall& call, const Work& work) const noexcept {
  return static_cast<const StreamCall&>(call).work.get() == &work;
}

void HostStream::on_end(OpenCall& call) noexcept {
  auto& ending = static_cast<StreamCall&>(call);
  if (const std::shared_ptr<Work> work = std::move(ending.work)) work->finish(call.status);
  const Status how = std::exchange(call.status, Status{});
  PointList reached = [&] {
    const std::lock_guard lock(end_mutex_);
    return end_place(ending.number, how);
  }();
  reached.release_waiters();
}

/// From now on the place may be another operation's.
PointList HostStream::end_place(std::uint64_t number, const Status& how) noexcept {
  if (failure_.ok()) failure_ = how;
  ended_.store(number, std::memory_order_release);
  while (number != enqueued_.load(std::memory_order_acquire)) {
    StreamCall& next = place_of(number + 1);
    if (next.awaited == nullptr) {
      // It cannot end before the mutex is free, so its engines are there.
      if (next.group != nullptr) {
        next.group->notice_ready();
      } else {
        next.engine->notice_ready();
      }
      break;
    }
    if (!next.open) break;
    next.awaited.reset();
    ended_.store(++number, std::memory_order_release);
  }
  return points_.take_reached(number);
}

std::shared_ptr<StreamPoint> HostStream::make_point() {
  const std::lock_guard lock(end_mutex_);
  const std::uint64_t last = enqueued_.load(std::memory_order_relaxed);
  if (last == ended_.load(std::memory_order_relaxed)) return nullptr;
  if (StreamPoint* const same = points_.last(); same != nullptr && same->number() == last) {
    return same->shared_from_this();
  }
  auto point = std::make_shared<StreamPoint>(*this, last);
  points_.push(point);
  return point;
}

void HostStream::enqueue_wait(std::shared_ptr<StreamPoint> point) {
  const std::unique_lock held = lock_with_room();
  const std::uint64_t number = prepare_place();
  const std::lock_guard lock(end_mutex_);
  if (!point->add_waiter(*this, number)) return;
  StreamCall& place = place_of(number);
  place.group = nullptr;
  place.awaited = std::move(point);
  place.open = false;
  enqueued_.store(number, std::memory_order_release);
}

PointList HostStream::open_place(std::uint64_t number) noexcept {
  const std::lock_guard lock(end_mutex_);
  StreamCall& place = place_of(number);
  place.open = true;
  if (!is_turn_of(number)) return {};
  place.awaited.reset();
  PointList reached = end_place(number, {});
  helper_->poke();  // the next operation may be another engine's than the one that moves now
  return reached;
}

/// The waiting thread drives the engine of the oldest call, then that of the next.
void HostStream::wait_for(std::uint64_t number) noexcept {
  while (true) {
    std::unique_lock lock(end_mutex_);
    const std::uint64_t oldest = ended_.load(std::memory_order_relaxed) + 1;
    if (oldest > number) return;
    const StreamCall& place = place_of(oldest);
    if (place.awaited != nullptr) {
      const std::shared_ptr<StreamPoint> awaited = place.awaited;
      lock.unlock();
      awaited->wait();
      // The thread that has reached the point is about to end this operation.
      while (ended_.load(std::memory_order_acquire) < oldest) std::this_thread::yield();
      continue;
    }
    const CallGroup::Unfinished in_group =
        place.group != nullptr ? place.group->unfinished() : CallGroup::Unfinished{};
    Engine& engine = place.group != nullptr ? *in_group.engine : *place.engine;
    const Engine::Guest guest(engine);  // now, while the call keeps the engine alive
    lock.unlock();
    engine.drive_until([&] {
      return in_group.call != nullptr ? in_group.call->ended.load(std::memory_order_acquire)
                                      : ended_.load(std::memory_order_acquire) >= oldest;
    });
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
