// SPDX-License-Identifier: Apache-2.0
// The thread that writes what ranks print, so that a slow reader delays no rank.
#include "coll_run/coll_run_sink.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "sys/own_thread.hpp"

namespace perf {
namespace {

constexpr std::size_t kMostWaiting = 1 << 20;

/// 0, or why nobody takes it. The signal that a closed pipe raises stays with this thread, which
/// blocks it.
int write_text(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t now = ::write(fd, text.data(), text.size());
    if (now > 0) text.remove_prefix(static_cast<std::size_t>(now));
    if (now >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) return errno;
    pollfd one{fd, POLLOUT, 0};  // whoever started us made it so that it does not block
    ::poll(&one, 1, -1);
  }
  return 0;
}

}  // namespace

struct Sink::State {
  State(int fd_, int room_) : fd(fd_), room(room_) {}
  const int fd;
  const int room;
  std::mutex mutex;
  std::condition_variable changed;
  bool started = false;
  std::string waiting;
  std::size_t writing = 0;  ///< bytes that the thread has taken and not yet written
  int error = 0;            ///< why nobody takes it any more; the ranks go on
};

Sink::Sink(int fd, int room) : state_(std::make_shared<State>(fd, room)) {}

void Sink::write_all(State& state) {
  std::string text;
  std::unique_lock lock(state.mutex);
  while (true) {
    state.changed.wait(lock, [&] { return !state.waiting.empty(); });
    text.clear();
    text.swap(state.waiting);
    state.writing = text.size();
    lock.unlock();
    const int error = write_text(state.fd, text);
    lock.lock();
    state.writing = 0;
    state.error = error;
    if (error != 0) state.waiting.clear();
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto told = ::write(state.room, &one, sizeof one);
    if (error != 0) return;
  }
}

coll::Status Sink::start() {
  if (std::exchange(state_->started, true)) return {};
  COLL_ASSIGN(std::thread thread, coll::start_thread("coll-run-out", "that writes output",
                                                     [state = state_] { write_all(*state); }));
  thread.detach();
  return {};
}

void Sink::put(std::string_view text) {
  const std::lock_guard lock(state_->mutex);
  if (state_->error != 0) return;
  state_->waiting += text;
  state_->changed.notify_one();
}

bool Sink::has_room() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting.size() + state_->writing < kMostWaiting;
}

bool Sink::is_empty() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting.size() + state_->writing == 0;
}

int Sink::error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

}  // namespace perf
