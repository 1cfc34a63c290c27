// SPDX-License-Identifier: Apache-2.0
// Measured costs of copies lie where a machine can be.
#include "sys/machine/memory_costs.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>

#include "sys/memory/peer_memory.hpp"

namespace coll {
namespace {

TEST(MemoryCosts, AreMeasuredOnce) {
  const MemoryCosts& costs = memory_costs();
  // Nothing copies ten terabytes a second, or no megabyte in one.
  EXPECT_GE(costs.copy_us_per_byte, 1e-7);
  EXPECT_LT(costs.copy_us_per_byte, 1);
  EXPECT_GE(costs.fetch_us_per_byte, 1e-7);
  EXPECT_EQ(&memory_costs(), &costs);
  std::byte into[1];
  const std::byte from[1]{};
  const bool allowed =
      read_peer_memory(::getpid(), reinterpret_cast<std::uintptr_t>(from), into, 1).ok();
  EXPECT_EQ(std::isfinite(costs.fetch_us_per_byte), allowed);
  if (allowed) {
    EXPECT_LT(costs.fetch_us_per_byte, 1);
  }
}

}  // namespace
}  // namespace coll
