// SPDX-License-Identifier: Apache-2.0
// Inputs whose results are exact in every dtype, and the results.
#pragma once
#include <cstdint>
#include <vector>

#include "base/types.hpp"

namespace coll::testing {

/// The whole input buffer of a rank: values whose reduction over up to 16 ranks, in any order, is
/// exact in every dtype.
std::vector<std::byte> make_input(DataType type, ReduceOp op, Rank ranks, Rank rank,
                                  std::uint64_t elements, std::uint64_t seed);

/// What `rank` must find in its output; empty where it has none. `count` as in the C ABI.
std::vector<std::byte> expected_output(Collective collective, DataType type, ReduceOp op,
                                       Rank ranks, Rank root, Rank rank, std::uint64_t count,
                                       std::uint64_t seed);

}  // namespace coll::testing
