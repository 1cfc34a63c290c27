// SPDX-License-Identifier: Apache-2.0
// Threads that call pread() and pwrite(): works everywhere.
#include <unistd.h>

#include <cerrno>

#include "io_queue.hpp"
#include "worker_pool.hpp"

namespace training {
namespace {

class ThreadQueue final : public IoQueue {
 public:
  explicit ThreadQueue(int fd) : fd_(fd), workers_(2) {}  // one reads while the other writes

  int submit(std::size_t number, const Transfer& transfer) override {
    workers_.add([=, this](std::size_t /*worker*/) {
      const auto offset = static_cast<off_t>(transfer.offset);
      ssize_t moved = 0;
      do {
        moved = transfer.write ? ::pwrite(fd_, transfer.data, transfer.bytes, offset)
                               : ::pread(fd_, transfer.data, transfer.bytes, offset);
      } while (moved < 0 && errno == EINTR);
      const Completion completion{number, moved < 0 ? -errno : moved};
      const std::lock_guard lock(mutex_);
      completions_.push_back(completion);
      ended_.notify_one();
    });
    return 0;
  }

  Completion next() override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return !completions_.empty(); });
    const Completion completion = completions_.front();
    completions_.pop_front();
    return completion;
  }

 private:
  int fd_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::deque<Completion> completions_;
  WorkerPool workers_;
};

}  // namespace

std::unique_ptr<IoQueue> make_thread_queue(int fd) {
  return std::make_unique<ThreadQueue>(fd);
}

}  // namespace training
