// SPDX-License-Identifier: Apache-2.0
// The measured peak is a speed that a machine can have, and is measured in the time it is given.
#include "report/peak_flops.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace training {
namespace peak_flops_test {

TEST(PeakFlops, IsASpeedAndTakesItsTime) {
  const auto begin = std::chrono::steady_clock::now();
  const double peak = peak_flops(0.02);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GT(peak, 1e6);
  EXPECT_LT(peak, 1e15);
  EXPECT_LT(seconds, 20)
      << "a loaded machine, a sanitizer or an emulator may take long, not for ever";
  RecordProperty("gflops", static_cast<int>(peak / 1e9));
}

}  // namespace peak_flops_test
}  // namespace training
