// SPDX-License-Identifier: Apache-2.0
// Linux's native AIO, by libaio. With O_DIRECT only: otherwise io_submit() waits for the transfer.
#include "io_queue.hpp"

#if TRAINING_HAVE_AIO
#include <fcntl.h>
#include <libaio.h>

#include <array>
#include <cerrno>
#endif

namespace training {

#if TRAINING_HAVE_AIO
namespace {

class AioQueue final : public IoQueue {
 public:
  explicit AioQueue(int fd) : fd_(fd) { usable_ = io_setup(kTransfers, &context_) == 0; }
  ~AioQueue() override {
    if (usable_) io_destroy(context_);
  }
  [[nodiscard]] bool usable() const { return usable_; }

  int submit(std::size_t number, const Transfer& transfer) override {
    iocb* block = &blocks_[number];
    const auto offset = static_cast<long long>(transfer.offset);
    if (transfer.write) {
      io_prep_pwrite(block, fd_, transfer.data, transfer.bytes, offset);
    } else {
      io_prep_pread(block, fd_, transfer.data, transfer.bytes, offset);
    }
    const int submitted = io_submit(context_, 1, &block);
    return submitted < 0 ? -submitted : 0;
  }

  Completion next() override {
    io_event event{};
    while (io_getevents(context_, 1, 1, &event, nullptr) != 1) {  // a signal came
    }
    return {static_cast<std::size_t>(event.obj - blocks_.data()),
            static_cast<std::int64_t>(event.res)};
  }

 private:
  int fd_;
  bool usable_ = false;
  io_context_t context_ = nullptr;
  std::array<iocb, kTransfers> blocks_{};
};

}  // namespace

std::unique_ptr<IoQueue> make_aio_queue(int fd) {
  if ((::fcntl(fd, F_GETFL) & O_DIRECT) == 0) return nullptr;
  auto queue = std::make_unique<AioQueue>(fd);
  if (!queue->usable()) return nullptr;
  return queue;
}
#else
std::unique_ptr<IoQueue> make_aio_queue(int /*fd*/) {
  return nullptr;
}
#endif

}  // namespace training
