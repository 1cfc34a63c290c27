// SPDX-License-Identifier: Apache-2.0
// The event: one stream waits for what another one held.
#include "communicator/stream_event.hpp"

#include <optional>
#include <utility>

#include "communicator/host_stream.hpp"

namespace coll {

void StreamPoint::wait() noexcept {
  std::optional<HostStream::Guest> guest;
  {
    const std::lock_guard lock(mutex_);
    if (reached()) return;
    guest.emplace(*stream_);  // now, while the point keeps the stream alive
  }
  guest->wait_for(number_);
}

bool StreamPoint::add_waiter(HostStream& stream, std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (reached()) return false;
  waiters_.push_back({&stream, number});
  return true;
}

void StreamPoint::reach() noexcept {
  const std::lock_guard lock(mutex_);
  stream_ = nullptr;
  reached_.store(true, std::memory_order_release);
}

PointList::~PointList() {
  while (pop()) continue;  // one by one: a long chain would destroy itself recursively
}

void PointList::push(std::shared_ptr<StreamPoint> point) noexcept {
  StreamPoint* const raw = point.get();
  (last_ == nullptr ? first_ : last_->next_) = std::move(point);
  last_ = raw;
}

void PointList::append(PointList& other) noexcept {
  if (other.last_ == nullptr) return;
  (last_ == nullptr ? first_ : last_->next_) = std::move(other.first_);
  last_ = std::exchange(other.last_, nullptr);
}

std::shared_ptr<StreamPoint> PointList::pop() noexcept {
  std::shared_ptr<StreamPoint> point = std::move(first_);
  if (point) first_ = std::move(point->next_);
  if (!first_) last_ = nullptr;
  return point;
}

PointList PointList::take_reached(std::uint64_t number) noexcept {
  PointList taken;
  while (first_ && first_->number() <= number) {
    first_->reach();
    taken.push(pop());
  }
  return taken;
}

void PointList::release_waiters() noexcept {
  while (const std::shared_ptr<StreamPoint> point = pop()) {
    for (const auto& [stream, number] : point->waiters_) {
      PointList more = stream->open_place(number);
      append(more);
    }
  }
}

void StreamEvent::record(HostStream& stream) {
  std::shared_ptr<StreamPoint> point = stream.make_point();
  const std::lock_guard lock(mutex_);
  point_.swap(point);
}

void StreamEvent::hold_back(HostStream& stream) const {
  std::shared_ptr<StreamPoint> at = point();
  if (at != nullptr && !at->reached()) stream.enqueue_wait(std::move(at));
}

bool StreamEvent::reached() const {
  const std::shared_ptr<StreamPoint> at = point();
  return at == nullptr || at->reached();
}

void StreamEvent::wait() const noexcept {
  if (const std::shared_ptr<StreamPoint> at = point()) at->wait();
}

std::shared_ptr<StreamPoint> StreamEvent::point() const {
  const std::lock_guard lock(mutex_);
  return point_;
}

}  // namespace coll
