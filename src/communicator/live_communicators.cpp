// SPDX-License-Identifier: Apache-2.0
// What becomes of communicators at the process's end, and in its children.
#include "communicator/live_communicators.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "sys/clock.hpp"

namespace coll {
namespace {

constexpr auto kExitTime = std::chrono::seconds(1);  // for calls that other threads are in
constexpr auto kNap = std::chrono::milliseconds(1);

/// Made while the library is loaded: no fork comes in between.
[[maybe_unused]] const LiveCommunicators& kCommunicatorsAtLoad = LiveCommunicators::of_process();

}  // namespace

LiveCommunicators& LiveCommunicators::of_process() {
  static auto* const one = new LiveCommunicators;  // used at exit, after static objects are gone
  return *one;
}

LiveCommunicators::LiveCommunicators() {
  const auto before_fork = [] { of_process().mutex_.lock(); };
  const auto in_parent = [] { of_process().mutex_.unlock(); };
  const auto in_child = [] {
    of_process().abandon_all();
    of_process().mutex_.unlock();
  };
  if (pthread_atfork(before_fork, in_parent, in_child) != 0) {
    throw std::bad_alloc();  // the only reason it has to fail
  }
}

void LiveCommunicators::expect_exit() {
  const std::lock_guard lock(mutex_);
  const auto at_exit = [] { of_process().leave_all(); };
  if (!exit_expected_ && std::atexit(at_exit) != 0) throw std::bad_alloc();
  exit_expected_ = true;
}

void LiveCommunicators::enter(Owner& owner) {
  const std::lock_guard lock(mutex_);
  owners_.insert(&owner);
}

void LiveCommunicators::forget(Owner& owner) {
  const std::lock_guard lock(mutex_);
  owners_.erase(&owner);
}

void LiveCommunicators::leave_all() {
  const Deadline until = Clock::now() + kExitTime;
  std::unique_lock lock(mutex_, std::defer_lock);
  // A signal's handler may have called exit while its thread was in here: then no wait would end.
  while (!lock.try_lock()) {
    if (Clock::now() >= until) return;
    std::this_thread::sleep_for(kNap);
  }
  std::vector<Communicator*> leaving;
  try {
    leaving.reserve(owners_.size());
  } catch (const std::bad_alloc&) {
    return;  // as if it had been killed
  }
  for (Owner* owner : owners_) {
    // What calls have sent is on its way: none returns earlier.
    bool idle = (*owner)->retire();
    while (!idle && Clock::now() < until) {
      std::this_thread::sleep_for(kNap);
      idle = (*owner)->retire();
    }
    if (idle) leaving.push_back(owner->get());
  }
  for (Communicator* one : leaving) one->start_leaving();
  for (Communicator* one : leaving) one->leave();
}

void LiveCommunicators::abandon_all() noexcept {
  forks_.fetch_add(1, std::memory_order_relaxed);
  for (Owner* owner : owners_) {
    const Communicator& parents = **owner;
    Owner refusing = Communicator::refusing(
        parents.rank(), parents.size(),
        failed(Code::invalid_usage,
               "the communicator belongs to the process that made it; this is a child of it, made "
               "by fork",
               "join in the child, or make it by fork and exec before joining"));
    left_behind_.push_back(std::exchange(*owner, std::move(refusing)));
  }
  owners_.clear();
}

}  // namespace coll
