// SPDX-License-Identifier: Apache-2.0
// The stack of objects that have lost their last owner, and the thread that deletes them.
#include "emulation/cuda/driver/emulated_owner.hpp"

#include <unistd.h>

#include <mutex>
#include <thread>

namespace emucuda {
namespace {

std::atomic<Shared*> g_discarded{nullptr};

}  // namespace

void Shared::start_deleting() {
  static std::once_flag started;
  std::call_once(started, [] {
    std::thread([] {
      constexpr unsigned kPause = 20'000;  // us
      for (;; usleep(kPause)) delete_discarded();
    }).detach();
  });
}

void Shared::discard() {
  next_discarded_ = g_discarded.load(std::memory_order_relaxed);
  // Relaxed where it fails: this thread must see nothing of those that discarded before.
  while (!g_discarded.compare_exchange_weak(next_discarded_, this, std::memory_order_release,
                                            std::memory_order_relaxed)) {
  }
}

void Shared::delete_discarded() {
  Shared* object = g_discarded.exchange(nullptr, std::memory_order_acquire);
  while (object != nullptr) {
    static_cast<void>(object->owners_.load(std::memory_order_acquire));  // sees what all owners did
    Shared* const next = object->next_discarded_;
    delete object;
    object = next;
  }
}

}  // namespace emucuda
