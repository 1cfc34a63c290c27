// SPDX-License-Identifier: Apache-2.0
// What a caller wants of any source, and what the sources' random numbers are for.
#pragma once
#include <cstddef>
#include <cstdint>

namespace training {

/// What a caller wants of any source.
struct Draw {
  std::uint64_t seed = 0;
  std::size_t sequences = 1;  ///< of a micro-batch; images: their number
  std::size_t tokens = 1;     ///< of a sequence; images have no use for it
};

/// Purposes of random numbers. The numbers stay what they are: they decide what training sees.
enum Purpose : std::uint32_t {
  kPositions = 1,
  kOrder = 2,
  kMatrix = 3,
  kTraining = 4,
  kValidation = 5,
  kDropped = 6
};

/// Most examples of a source, characters of a text, and rows of a micro-batch.
inline constexpr std::size_t kMostRows = std::size_t{1} << 31U;

}  // namespace training
