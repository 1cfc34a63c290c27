// SPDX-License-Identifier: Apache-2.0
// The queue of operations to complete, and the threads that serve it.
#include "torch_completion.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "torch_work.hpp"

namespace collectives_torch {

namespace {

constexpr int threads_most = 4;

class CompletionQueue {
 public:
  void push(c10::intrusive_ptr<GroupWork> work) {
    {
      const std::lock_guard lock(mutex_);
      works_.push_back(std::move(work));
      if (idle_ == 0 && threads_ < threads_most) {
        ++threads_;
        std::thread([this] { serve(); }).detach();
      }
    }
    filled_.notify_one();
  }

 private:
  void serve() {
    pthread_setname_np(pthread_self(), "coll-complete");
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      filled_.wait(lock, [this] { return !works_.empty(); });
      --idle_;
      c10::intrusive_ptr<GroupWork> work = std::move(works_.front());
      works_.pop_front();
      lock.unlock();
      work->complete();
      work.reset();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<c10::intrusive_ptr<GroupWork>> works_;
  int idle_ = 0;
  int threads_ = 0;
};

// Never destroyed, because its threads do not end before the process does. A forked child has none of
// them, so it makes a queue of its own.
std::atomic<CompletionQueue*> queue_of_process = nullptr;

}  // namespace

void complete_later(c10::intrusive_ptr<GroupWork> work) {
  static const bool forgets_at_fork =
      pthread_atfork(nullptr, nullptr, [] { queue_of_process = nullptr; }) == 0;
  (void)forgets_at_fork;
  CompletionQueue* queue = queue_of_process;
  if (queue == nullptr) {
    auto made = std::make_unique<CompletionQueue>();
    if (queue_of_process.compare_exchange_strong(queue, made.get())) queue = made.release();
  }
  queue->push(std::move(work));
}

}  // namespace collectives_torch
