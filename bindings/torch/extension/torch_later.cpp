// SPDX-License-Identifier: Apache-2.0
// Threads for what nobody may be kept waiting for: a queue of tasks, and who serves it.
#include "torch_later.hpp"

#include <c10/util/Exception.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace collectives_torch {

namespace {

constexpr int threads_most = 4;

class TaskQueue {
 public:
  void push(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      if (tasks_.size() > idle_ && threads_ < threads_most) {
        ++threads_;
        std::thread([this] { serve(); }).detach();
      }
    }
    filled_.notify_one();
  }

 private:
  void serve() {
    pthread_setname_np(pthread_self(), "coll-later");
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      filled_.wait(lock, [this] { return !tasks_.empty(); });
      --idle_;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      try {
        task();
      } catch (const std::exception& error) {
        TORCH_WARN("coll: ", error.what());
      }
      task = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;
  int threads_ = 0;
};

// Never destroyed, because its threads do not end before the process does. A forked child has none
// of them, so it makes a queue of its own.
std::atomic<TaskQueue*> queue_of_process = nullptr;

}  // namespace

void run_later(std::function<void()> task) {
  static const bool forgets_at_fork =
      pthread_atfork(nullptr, nullptr, [] { queue_of_process = nullptr; }) == 0;
  (void)forgets_at_fork;
  TaskQueue* queue = queue_of_process;
  if (queue == nullptr) {
    auto made = std::make_unique<TaskQueue>();
    if (queue_of_process.compare_exchange_strong(queue, made.get())) queue = made.release();
  }
  queue->push(std::move(task));
}

}  // namespace collectives_torch
