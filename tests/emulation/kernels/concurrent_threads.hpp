// SPDX-License-Identifier: Apache-2.0
// Twins of kernels whose threads wait for one another, and for those of other kernels: each is a
// thread of the host.
//
// A block has two threads at most, however many it was launched with: enough for the thread
// sanitizer to see a barrier that is missing.
#pragma once
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "emulation/kernels/cuda_shim.hpp"

namespace coll::test {

// Tests find these by name.
extern "C" {
/// While it is true no kernel begins, as if others had the whole device.
__attribute__((visibility("default"))) inline std::atomic<bool> emulated_device_is_full{false};
/// Called at every barrier, when all threads of the block are there. Set while no kernel runs.
__attribute__((visibility("default"))) inline std::atomic<void (*)()> emulated_at_barrier{nullptr};
}

/// The threads of one block meet.
class BlockBarrier {
 public:
  explicit BlockBarrier(unsigned threads) { pthread_barrier_init(&barrier_, nullptr, threads); }
  BlockBarrier(const BlockBarrier&) = delete;
  BlockBarrier& operator=(const BlockBarrier&) = delete;
  ~BlockBarrier() { pthread_barrier_destroy(&barrier_); }

  /// Did any thread say yes?
  bool meet(bool yes) {
    // Three by turns: one is read, one may be written already, one is cleared.
    if (yes) any_[turn % 3].store(true, std::memory_order_relaxed);
    const bool is_last = pthread_barrier_wait(&barrier_) == PTHREAD_BARRIER_SERIAL_THREAD;
    if (void (*const at_barrier)() = emulated_at_barrier.load(std::memory_order_relaxed)) {
      if (is_last) at_barrier();
      pthread_barrier_wait(&barrier_);
    }
    const bool any = any_[turn % 3].load(std::memory_order_relaxed);
    any_[(turn + 2) % 3].store(false, std::memory_order_relaxed);
    ++turn;
    return any;
  }

 private:
  static thread_local unsigned turn;  // the same in all threads of the block
  pthread_barrier_t barrier_;
  std::atomic<bool> any_[3] = {};
};
inline thread_local unsigned BlockBarrier::turn = 0;

inline thread_local BlockBarrier* g_block = nullptr;

/// Runs `body(shared)` in all threads of the launch at once, where `shared` is the block's.
template <class Shared, class Body>
void run_concurrent_threads(const EmulatedLaunch& launch, Body body) {
  struct Block {
    explicit Block(unsigned threads) : barrier(threads) {}
    BlockBarrier barrier;
    Shared shared;
  };
  while (emulated_device_is_full.load(std::memory_order_acquire))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const unsigned width = launch.block[0] < 2 ? launch.block[0] : 2;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::thread> threads;
  for (unsigned y = 0; y < launch.grid[1]; ++y) {
    for (unsigned x = 0; x < launch.grid[0]; ++x) {
      Block& block = *blocks.emplace_back(std::make_unique<Block>(width));
      for (unsigned thread = 0; thread < width; ++thread) {
        threads.emplace_back([&launch, &body, &block, x, y, thread, width] {
          gridDim = {launch.grid[0], launch.grid[1], 1};
          blockDim = {width, 1, 1};
          blockIdx = {x, y, 0};
          threadIdx = {thread, 0, 0};
          g_block = &block.barrier;
          body(block.shared);
        });
      }
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace coll::test

inline void __syncthreads() {
  coll::test::g_block->meet(false);
}
inline int __syncthreads_or(int yes) {
  return coll::test::g_block->meet(yes != 0) ? 1 : 0;
}
#define COLL_CALLED
#define COLL_PAUSE() sched_yield()
#define COLL_LOOKS_IN_VAIN 16

#define COLL_FUSED_KERNEL(name, Arguments, Shared, body)              \
  EMULATED_KERNEL(name, Arguments) {                                  \
    coll::test::run_concurrent_threads<Shared>(                       \
        launch, [&params](Shared& shared) { body(params, shared); }); \
  }
