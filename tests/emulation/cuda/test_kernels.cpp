// SPDX-License-Identifier: Apache-2.0
// The twins of the kernels that the tests of the emulated driver launch.
#include "emulation/cuda/test_kernels.hpp"

#include <sched.h>

#include <atomic>

#include "emulation/cuda/emulated_launch.hpp"

namespace emulation_test {

EMULATED_KERNEL(add_floats, AddFloats) {
  for (std::size_t i = 0; i < params.count; ++i) params.to[i] += params.from[i];
}

EMULATED_KERNEL(note_launch, NoteLaunch) {
  const unsigned seen[] = {launch.grid[0],  launch.grid[1],  launch.grid[2],     launch.block[0],
                           launch.block[1], launch.block[2], launch.shared_bytes};
  for (int i = 0; i < 7; ++i) params.to[i] = seen[i];
}

EMULATED_KERNEL(count_up, CountUp) {
  ++*params.counter;
}

EMULATED_KERNEL(meet, Meet) {
  std::atomic_ref(*params.arrived).fetch_add(1, std::memory_order_acq_rel);
  while (std::atomic_ref(*params.arrived).load(std::memory_order_acquire) < params.all)
    sched_yield();
}

}  // namespace emulation_test
