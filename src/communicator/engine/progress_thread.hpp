// SPDX-License-Identifier: Apache-2.0
// The thread that drives calls for which nobody waits.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "base/status.hpp"
#include "executor/wait_policy.hpp"
#include "sys/fd.hpp"

namespace coll {

class Engine;

/// One for a process, as long as a stream exists. It sleeps while no engine needs it, and leaves an
/// engine alone while a thread that waits drives it.
class ProgressThread {
 public:
  /// The process's; starts it if there is none.
  static Result<std::shared_ptr<ProgressThread>> of_process();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;
  ~ProgressThread();

  /// Drives the engine until no owner has a call in flight there.
  void attend(Engine& engine) noexcept;
  /// Returns when the engine will not be touched any more. Not from this thread itself.
  void forget(Engine& engine) noexcept;
  /// Ends a nap: an engine needs it now.
  void poke() noexcept;

 private:
  ProgressThread() = default;
  void run();
  bool visit_all(std::unique_lock<std::mutex>& lock, bool& needed);
  void nap(std::unique_lock<std::mutex>& lock, Waiter& waiter);
  void append(Engine& engine);
  Engine& take_first();

  Fd event_;
  std::atomic<bool> napping_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Engine* first_ = nullptr;  ///< the list of engines to visit
  Engine* last_ = nullptr;
  std::size_t engines_ = 0;
  Engine* inside_ = nullptr;  ///< being visited, and not in the list
  bool forgotten_ = false;    ///< the one inside
  WaitPolicy waiting_;
  NapEnds nap_ends_;  ///< the thread's own
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace coll
