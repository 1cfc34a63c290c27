// SPDX-License-Identifier: Apache-2.0
// Machines that tests describe.
#pragma once
#include <gtest/gtest.h>

#include <string_view>

#include "topology/read/read_topology.hpp"

namespace coll::test {

/// The machine of a text; an empty one if it cannot be read, which fails the test.
inline Topology machine_of(std::string_view text) {
  auto read = read_topology(text, "test");
  EXPECT_TRUE(read.ok()) << read.status().text();
  return read.ok() ? *std::move(read) : Topology{};
}

}  // namespace coll::test
