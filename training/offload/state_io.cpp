// SPDX-License-Identifier: Apache-2.0
// Tries the kernel's means, goes on where a transfer was short, and names errors.
#include "state_io.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "../memory/failure.hpp"

namespace training {
namespace {

struct Means {
  const char* name;
  std::unique_ptr<IoQueue> (*make)(int fd);
};
constexpr Means kMeans[] = {
    {"io_uring", make_uring_queue}, {"libaio", make_aio_queue}, {"threads", make_thread_queue}};

}  // namespace

StateIo::StateIo(const StateFile& file, const std::string& means) : file_(file) {
  for (const Means& one : kMeans) {
    if (!means.empty() && means != one.name) continue;
    queue_ = one.make(file.fd());
    means_ = one.name;
    if (queue_ != nullptr && works()) return;
    queue_.reset();
  }
  throw Failure(fmt::format("{}: {} does not work for the optimizer's states: the kernel, the file "
                            "system or this build refuses it. Choose io_uring, libaio or threads; "
                            "libaio needs O_DIRECT.",
                            file.name(), means.empty() ? "no means of I/O" : means),
                Failure::kBadUsage);
}

StateIo::~StateIo() {
  while (std::ranges::any_of(going_, &Going::going)) take_completion();
}

std::string StateIo::means() const {
  return fmt::format("{}, {}", means_, file_.direct() ? "O_DIRECT" : "buffered");
}

/// Whether a page can be read: what a kernel refuses may show only then.
bool StateIo::works() {
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  const std::unique_ptr<void, Free> page(std::aligned_alloc(kPage, kPage));
  going_[0] = {};
  if (queue_->submit(0, {false, static_cast<std::byte*>(page.get()), kPage, 0}) != 0) return false;
  return queue_->next().result >= 0;
}

void StateIo::start(std::size_t number, const Transfer& transfer) {
  going_[number] = {true, transfer, 0};
  submit(number);
}

void StateIo::submit(std::size_t number) {
  Going& one = going_[number];
  one.error = queue_->submit(number, one.rest);
  if (one.error != 0) one.going = false;
}

void StateIo::take_completion() {
  const auto [number, result] = queue_->next();
  Going& one = going_[number];
  one.going = false;
  if (result < 0) {
    one.error = static_cast<int>(-result);
    if (one.error == EINTR || one.error == EAGAIN) {
      one.going = true;
      submit(number);
    }
    return;
  }
  const auto moved = static_cast<std::size_t>(result);
  one.rest.data += moved;
  one.rest.offset += moved;
  one.rest.bytes -= moved;
  if (moved > 0 && one.rest.bytes > 0) {
    one.going = true;
    submit(number);
  }
}

void StateIo::wait(std::size_t number) {
  const Going& one = going_[number];
  while (one.going) take_completion();
  if (one.error == 0 && one.rest.bytes == 0) return;
  const char* what = one.rest.write ? "writing" : "reading";
  const std::string why = one.error == 0
                              ? "the file ended (no errno)"
                              : fmt::format("{} (errno {})", std::strerror(one.error), one.error);
  throw Failure(fmt::format("{}: {} {} bytes of the optimizer's states at offset {} failed: {}",
                            file_.name(), what, one.rest.bytes, one.rest.offset, why));
}

}  // namespace training
