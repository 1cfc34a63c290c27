// SPDX-License-Identifier: Apache-2.0
// Schedules run on real numbers, in many orders.
#pragma once
#include <cstdint>
#include <random>
#include <string>

#include "sample_schedules.hpp"

namespace coll {

/// What one run on numbers came to.
struct ReferenceOutcome {
  enum class Kind { right, wrong, deadlock };
  Kind kind = Kind::right;
  std::string what;
  [[nodiscard]] bool right() const { return kind == Kind::right; }
};

/// Knows nothing of the verifier: memory is arrays of 64-bit numbers (the parts of a block have
/// different lengths, what is not input begins as noise), messages are arrays in bounded queues,
/// and at each moment some part of some lane's step is done, chosen by `random`: reading,
/// keeping, sending. Some ranks, chosen by `random`, work in place. The reduction is a sum and its
/// finish a one-to-one function. Two passes. In a barrier, one rank enters as late as it can.
ReferenceOutcome reference_run(const samples::Set& set, std::uint32_t credits,
                               std::mt19937_64& random);

}  // namespace coll
