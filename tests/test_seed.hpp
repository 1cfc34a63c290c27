// SPDX-License-Identifier: Apache-2.0
// The seed of every random test.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

namespace coll::test {

/// The seed of this run, from COLL_TEST_SEED or new; printed, so that a failure can be repeated.
inline std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("COLL_TEST_SEED");
    const std::uint64_t value =
        given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::cerr << "COLL_TEST_SEED=" << value << "\n";
    return value;
  }();
  return seed;
}

}  // namespace coll::test
