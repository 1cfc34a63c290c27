// SPDX-License-Identifier: Apache-2.0
// The thread that drives calls for which nobody waits.
#include "communicator/engine/progress_thread.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "base/knobs.hpp"
#include "communicator/engine/engine.hpp"
#include "sys/machine/cpu_list.hpp"
#include "sys/one_per_process.hpp"
#include "sys/own_thread.hpp"

namespace coll {
namespace {

OnePerProcess<ProgressThread> g_progress_thread;

Status keep_on(std::thread& thread, const std::string& processors) {
  if (processors.empty()) return {};
  const std::string knob = "COLL_PROGRESS_CPUS=" + processors;
  const std::optional<cpu_set_t> set = read_whole_cpu_list(processors);
  if (!set || CPU_COUNT(&*set) == 0) {
    return failed(Code::invalid_argument, knob + " is no list of processors",
                  "give a list such as 0-3,8 without spaces, or unset it");
  }
  const int error = pthread_setaffinity_np(thread.native_handle(), sizeof *set, &*set);
  if (error == 0) return {};
  return system_failure(knob, error, "name processors that this process may use (taskset -pc PID)");
}

}  // namespace

Result<std::shared_ptr<ProgressThread>> ProgressThread::of_process() {
  return g_progress_thread.find_or_make([]() -> Result<std::shared_ptr<ProgressThread>> {
    std::shared_ptr<ProgressThread> made(new ProgressThread);
    made->event_ = Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!made->event_) return system_failure("progress: making an eventfd", errno);
    COLL_ASSIGN(made->thread_, start_thread("coll-progress", "that drives streams",
                                            [raw = made.get()] { raw->run(); }));
    COLL_TRY(keep_on(made->thread_, knobs().progress_cpus));
    return made;
  });
}

ProgressThread::~ProgressThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProgressThread::append(Engine& engine) {
  engine.next_attended_ = nullptr;
  engine.attended_ = true;
  (last_ == nullptr ? first_ : last_->next_attended_) = &engine;
  last_ = &engine;
  ++engines_;
}

Engine& ProgressThread::take_first() {
  Engine& engine = *first_;
  first_ = engine.next_attended_;
  if (first_ == nullptr) last_ = nullptr;
  engine.attended_ = false;
  --engines_;
  return engine;
}

void ProgressThread::attend(Engine& engine) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!engine.attended_ && inside_ != &engine) append(engine);
    waiting_ = engine.waiting();
  }
  changed_.notify_all();
  poke();
}

void ProgressThread::forget(Engine& engine) noexcept {
  std::unique_lock lock(mutex_);
  for (std::size_t left = engine.attended_ ? engines_ : 0; left > 0; --left) {
    Engine& first = take_first();
    if (&first != &engine) append(first);
  }
  forgotten_ |= inside_ == &engine;
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
    changed_.wait(lock, [this] { return stop_ || engines_ != 0; });
    if (stop_) return;
    Waiter waiter(waiting_);
    while (engines_ != 0) {
      bool needed = false;
      if (visit_all(lock, needed)) {
        waiter.reset();
        continue;
      }
      lock.unlock();
      const bool look = waiter.turn();
      lock.lock();
      // Where somebody else drives all of them, its core is better left to others.
      if (look && (waiter.naps() || !needed)) nap(lock, waiter);
    }
  }
}

/// Lets the engines go whose calls have ended. True if anything moved.
bool ProgressThread::visit_all(std::unique_lock<std::mutex>& lock, bool& needed) {
  bool moved = false;
  for (std::size_t left = engines_; left > 0 && engines_ != 0; --left) {
    Engine& engine = take_first();
    inside_ = &engine;
    forgotten_ = false;
    lock.unlock();
    const Engine::Help help = engine.help();
    moved |= help == Engine::Help::moved;
    needed |= help != Engine::Help::not_needed;
    lock.lock();
    inside_ = nullptr;
    if (!forgotten_ && !engine.idle()) append(engine);
    changed_.notify_all();  // who wants it forgotten
  }
  return moved;
}

void ProgressThread::nap(std::unique_lock<std::mutex>& lock, Waiter& waiter) {
  nap_ends_.clear();
  nap_ends_.add(event_.get());
  napping_.store(true);  // from now on nobody's poke is lost: look once more
  bool needed = false;
  const bool moved = visit_all(lock, needed);
  for (Engine* engine = first_; engine != nullptr; engine = engine->next_attended_) {
    engine->add_nap_ends(nap_ends_);
  }
  lock.unlock();
  if (!moved) waiter.nap(nap_ends_);
  napping_.store(false);
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(event_.get(), &count, sizeof count);
  lock.lock();
}

}  // namespace coll
