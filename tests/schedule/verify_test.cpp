// SPDX-License-Identifier: Apache-2.0
// tests/schedule/: is the proof a proof? This file: correct schedules pass, with the right numbers.
#include "schedule/verify.hpp"

#include <gtest/gtest.h>

#include "sample_schedules.hpp"

namespace coll {
namespace {

TEST(Verify, AcceptsEverySample) {
  for (const auto& [name, set] : samples::all()) {
    for (const std::uint32_t credits : {1U, 2U, 7U}) {
      const auto result = verify(set, credits);
      EXPECT_TRUE(result.ok()) << name << ": " << result.status().text();
    }
  }
}

}  // namespace
}  // namespace coll
