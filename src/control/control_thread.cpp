// SPDX-License-Identifier: Apache-2.0
// The thread that serves all control planes of a process.
#include "control/control_thread.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "sys/one_per_process.hpp"
#include "sys/own_thread.hpp"

namespace coll {
namespace {

OnePerProcess<ControlThread> g_control_thread;

constexpr std::uint64_t kEvent = 0;  // the eventfd's key; owners' numbers begin with 1

std::uint64_t key_of(std::uint32_t number, std::uint32_t socket) {
  return std::uint64_t{number} << 32 | socket;
}

}  // namespace

Result<std::shared_ptr<ControlThread>> ControlThread::of_process() {
  return g_control_thread.find_or_make([]() -> Result<std::shared_ptr<ControlThread>> {
    std::shared_ptr<ControlThread> made(new ControlThread);
    made->event_ = Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!made->event_) return system_failure("watch: making an eventfd", errno);
    made->ready_ = Fd::kept_from_children([] { return epoll_create1(EPOLL_CLOEXEC); });
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kEvent;
    if (!made->ready_ ||
        epoll_ctl(made->ready_.get(), EPOLL_CTL_ADD, made->event_.get(), &event) != 0) {
      return system_failure("watch: making an epoll descriptor", errno);
    }
    COLL_ASSIGN(made->thread_, start_thread("coll-watch", "that watches the ranks",
                                            [raw = made.get()] { raw->run(); }));
    return made;
  });
}

std::size_t ControlThread::tasks_of_process() {
  const std::shared_ptr<ControlThread> one = g_control_thread.find();
  if (!one) return 0;
  const std::lock_guard lock(one->mutex_);
  return one->due_.size();
}

ControlThread::~ControlThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void ControlThread::wake() noexcept {
  const std::uint64_t one = 1;
  // It can only fail when the thread is about to wake anyway: the counter is full.
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

void ControlThread::ask(Task& task) noexcept {
  {
    const std::lock_guard lock(asked_mutex_);
    if (std::exchange(task.asked_, true)) return;
    task.next_asked_ = std::exchange(first_asked_, &task);
  }
  wake();
}

ControlThread::Task* ControlThread::next_asked() {
  const std::lock_guard lock(asked_mutex_);
  Task* const task = first_asked_;
  if (task == nullptr) return nullptr;
  first_asked_ = task->next_asked_;
  task->asked_ = false;
  return task;
}

void ControlThread::enter(Sockets& owner) {
  while (++last_number_ == 0 || owners_.contains(last_number_)) {
  }
  owners_.emplace(last_number_, &owner);
  owner.number_ = last_number_;
}

void ControlThread::leave(Sockets& owner) {
  owners_.erase(owner.number_);
}

void ControlThread::enter(Task& task) {
  task.slot_ = due_.size();
  due_.push_back({Clock::now(), &task});
}

void ControlThread::leave(Task& task) {
  due_[task.slot_] = due_.back();
  due_[task.slot_].task->slot_ = task.slot_;
  due_.pop_back();
  const std::lock_guard lock(asked_mutex_);
  if (!std::exchange(task.asked_, false)) return;
  Task** at = &first_asked_;
  while (*at != &task) at = &(*at)->next_asked_;
  *at = task.next_asked_;
}

void ControlThread::turn(Task& task, Deadline now) {
  due_[task.slot_].at = task.on_turn(now);
}

Status ControlThread::attend(const Sockets& owner, std::uint32_t socket, int fd,
                             std::uint32_t events, bool first) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key_of(owner.number_, socket);
  const int what = first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  return epoll_ctl(ready_.get(), what, fd, &event) == 0
             ? Status{}
             : system_failure("watch: sleeping on one more socket", errno);
}

void ControlThread::forget(int fd) {
  [[maybe_unused]] const int gone = epoll_ctl(ready_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

/// Runs the tasks that have asked for a turn or whose time has come. Returns when the next one's
/// time comes.
Deadline ControlThread::take_turns() {
  const Deadline now = Clock::now();
  while (Task* const task = next_asked()) turn(*task, now);
  Deadline next = Deadline::max();
  for (const Due& one : due_) {
    if (one.at <= now) turn(*one.task, now);
    next = std::min(next, one.at);
  }
  return next;
}

void ControlThread::run() {
  std::array<epoll_event, 64> news{};
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Deadline next = take_turns();
    lock.unlock();
    const int count =
        ::epoll_wait(ready_.get(), news.data(), static_cast<int>(news.size()), poll_timeout(next));
    lock.lock();
    for (int i = 0; i < count; ++i) {
      const epoll_event& one = news[static_cast<std::size_t>(i)];
      const std::uint64_t key = one.data.u64;
      if (key == kEvent) {
        std::uint64_t asked = 0;
        [[maybe_unused]] const auto got = ::read(event_.get(), &asked, sizeof asked);
        continue;
      }
      // It may have gone meanwhile.
      const auto owner = owners_.find(static_cast<std::uint32_t>(key >> 32));
      if (owner != owners_.end()) {
        owner->second->on_news(static_cast<std::uint32_t>(key), one.events);
      }
    }
  }
}

}  // namespace coll
