// SPDX-License-Identifier: Apache-2.0
// The thread that drives calls for which nobody waits.
#include "communicator/engine/progress_thread.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "base/made_once.hpp"
#include "communicator/engine/engine.hpp"
#include "sys/fork_safe_mutex.hpp"
#include "sys/own_thread.hpp"

namespace coll {
namespace {

constexpr std::size_t kEngines = 64;  ///< room kept for; more make the list grow

ForkSafeMutex g_current_mutex;
std::weak_ptr<ProgressThread>& current() {
  return made_once([] { return std::weak_ptr<ProgressThread>(); });
}

}  // namespace

pid_t ProgressThread::own_process() {
  return ::getpid();
}

Result<std::shared_ptr<ProgressThread>> ProgressThread::of_process() {
  const auto find = [] {
    const std::lock_guard lock(g_current_mutex);
    std::shared_ptr<ProgressThread> one = current().lock();
    return one && one->owner_ == own_process() ? one : nullptr;  // a parent's thread is not here
  };
  if (auto one = find()) return one;
  std::shared_ptr<ProgressThread> made(new ProgressThread);
  made->engines_.reserve(kEngines);
  made->event_ = Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!made->event_) return system_failure("progress: making an eventfd", errno);
  COLL_ASSIGN(made->thread_, start_thread("coll-progress", "that drives streams",
                                          [raw = made.get()] { raw->run(); }));
  std::shared_ptr<ProgressThread> others = find();
  if (others) return others;
  const std::lock_guard lock(g_current_mutex);
  current() = made;
  return made;
}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProgressThread::attend(Engine& engine) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(engines_, &engine) == engines_.end()) engines_.push_back(&engine);
    waiting_ = engine.waiting();
  }
  changed_.notify_all();
  poke();
}

void ProgressThread::forget(Engine& engine) noexcept {
  std::unique_lock lock(mutex_);
  std::erase(engines_, &engine);
  changed_.wait(lock, [&] { return inside_ != &engine; });
}

void ProgressThread::poke() noexcept {
  if (!napping_.load()) return;
  const std::uint64_t one = 1;
  // It can only fail when the thread is about to wake anyway: the counter is full.
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

void ProgressThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !engines_.empty(); });
    if (stop_) return;
    Waiter waiter(waiting_);
    while (!engines_.empty()) {
      bool needed = false;
      if (visit_all(lock, needed)) {
        waiter.reset();
        continue;
      }
      lock.unlock();
      // Where somebody else drives all of them, its core is better left to others.
      if (waiter.turn() && (waiter.naps() || !needed)) nap(waiter);
      lock.lock();
    }
  }
}

/// Lets the engines go whose calls have ended. True if anything moved.
bool ProgressThread::visit_all(std::unique_lock<std::mutex>& lock, bool& needed) {
  bool moved = false;
  for (std::size_t i = 0; i < engines_.size();) {
    Engine* const engine = inside_ = engines_[i];
    lock.unlock();
    const Engine::Help help = engine->help();
    moved |= help == Engine::Help::moved;
    needed |= help != Engine::Help::not_needed;
    lock.lock();
    const bool kept = i < engines_.size() && engines_[i] == engine;  // not forgotten meanwhile
    if (kept && engine->idle()) {
      engines_.erase(engines_.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (kept) {
      ++i;
    }
    inside_ = nullptr;
    changed_.notify_all();  // who wants it forgotten
  }
  return moved;
}

void ProgressThread::nap(Waiter& waiter) {
  WaitSockets sockets;
  sockets.add(event_.get());
  {
    const std::lock_guard lock(mutex_);
    for (Engine* const engine : engines_) engine->add_sockets(sockets);
  }
  napping_.store(true);
  waiter.nap(sockets);
  napping_.store(false);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(event_.get(), &count, sizeof count);
}

}  // namespace coll
