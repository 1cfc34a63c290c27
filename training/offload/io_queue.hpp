// SPDX-License-Identifier: Apache-2.0
// Reads and writes of a file that go on while the caller computes: what the kernel offers for that.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace training {

struct Transfer {
  bool write = false;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint64_t offset = 0;
};

/// The transfer that was begun under this number moved so many bytes, or failed: -errno.
struct Completion {
  std::size_t number = 0;
  std::int64_t result = 0;
};

/// How many transfers go on at once, at most: numbers are below that.
inline constexpr std::size_t kTransfers = 4;

class IoQueue {
 public:
  IoQueue() = default;
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;
  virtual ~IoQueue() = default;

  /// Begins a transfer; 0, or errno where the kernel did not take it.
  virtual int submit(std::size_t number, const Transfer& transfer) = 0;
  /// Waits until any transfer ends.
  virtual Completion next() = 0;
};

/// Each gives null where the kernel refuses it, or where it was not built in.
std::unique_ptr<IoQueue> make_uring_queue(int fd);   // uring_queue.cpp: io_uring
std::unique_ptr<IoQueue> make_aio_queue(int fd);     // aio_queue.cpp: Linux's native AIO
std::unique_ptr<IoQueue> make_thread_queue(int fd);  // thread_queue.cpp: pread and pwrite

}  // namespace training
