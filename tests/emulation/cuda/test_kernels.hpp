// SPDX-License-Identifier: Apache-2.0
// The parameters of the kernels that the tests of the emulated driver launch.
#pragma once
#include <cstddef>

namespace emulation_test {

/// add_floats: to[i] += from[i].
struct AddFloats {
  float* to;
  const float* from;
  std::size_t count;
};
/// note_launch: writes the dimensions of the grid, of the block, and the bytes of shared memory.
struct NoteLaunch {
  unsigned* to;
};
/// count_up: adds one.
struct CountUp {
  int* counter;
};
/// meet: waits for all to have arrived, so it ends only where kernels of several streams run at
/// once.
struct Meet {
  unsigned* arrived;
  unsigned all;
};

}  // namespace emulation_test
