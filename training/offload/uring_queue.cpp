// SPDX-License-Identifier: Apache-2.0
// io_uring (Axboe 2019, "Efficient IO with io_uring"), by liburing.
#include "io_queue.hpp"

#if TRAINING_HAVE_URING
#include <liburing.h>

#include <cerrno>
#endif

namespace training {

#if TRAINING_HAVE_URING
namespace {

class UringQueue final : public IoQueue {
 public:
  explicit UringQueue(int fd) : fd_(fd) {
    usable_ = io_uring_queue_init(kTransfers, &ring_, 0) == 0;
  }
  ~UringQueue() override {
    if (usable_) io_uring_queue_exit(&ring_);
  }
  [[nodiscard]] bool usable() const { return usable_; }

  int submit(std::size_t number, const Transfer& transfer) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return EAGAIN;
    const auto bytes = static_cast<unsigned>(transfer.bytes);
    if (transfer.write) {
      io_uring_prep_write(entry, fd_, transfer.data, bytes, transfer.offset);
    } else {
      io_uring_prep_read(entry, fd_, transfer.data, bytes, transfer.offset);
    }
    io_uring_sqe_set_data64(entry, number);
    const int submitted = io_uring_submit(&ring_);
    return submitted < 0 ? -submitted : 0;
  }

  Completion next() override {
    io_uring_cqe* entry = nullptr;
    while (io_uring_wait_cqe(&ring_, &entry) != 0) {  // a signal came
    }
    const Completion completion{static_cast<std::size_t>(entry->user_data), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return completion;
  }

 private:
  int fd_;
  bool usable_ = false;
  io_uring ring_{};
};

}  // namespace

std::unique_ptr<IoQueue> make_uring_queue(int fd) {
  auto queue = std::make_unique<UringQueue>(fd);
  if (!queue->usable()) return nullptr;
  return queue;
}
#else
std::unique_ptr<IoQueue> make_uring_queue(int /*fd*/) {
  return nullptr;
}
#endif

}  // namespace training
