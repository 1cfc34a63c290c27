// SPDX-License-Identifier: Apache-2.0
// Windows: how a call's elements are cut into passes.
#pragma once
#include <algorithm>
#include <cstdint>

namespace coll {

/// The passes of one call. Pass p moves elements [p * elements, (p + 1) * elements) of every block,
/// cut into parts of `chunk` elements. All ranks compute the same passes from the same call and
/// plan.
struct Windows {
  std::uint64_t count = 0;     ///< elements of one block
  std::uint64_t elements = 0;  ///< elements of one block in one pass
  std::uint64_t chunk = 0;     ///< elements of a full chunk
  std::uint64_t passes = 1;    ///< at least one: calls of 0 elements exchange empty messages
};

/// Cuts a call of `count` elements per block. Chunks are as long as `slice_bytes` allows for
/// messages of `message_chunks` chunks, evened out over the passes and, with several lanes, over
/// the lanes. Chunk lengths are multiples of 64 bytes where there is a choice.
constexpr Windows cut_windows(std::uint64_t count, std::size_t element_bytes, std::uint32_t parts,
                              std::uint32_t message_chunks, std::uint64_t slice_bytes,
                              std::uint32_t lanes) {
  const std::uint64_t grain = 64 / element_bytes;
  std::uint64_t longest = slice_bytes / message_chunks / element_bytes;
  if (longest >= grain) longest -= longest % grain;
  longest = std::max<std::uint64_t>(longest, 1);
  Windows windows;
  windows.count = count;
  const std::uint64_t most = longest * parts;
  windows.passes = std::max<std::uint64_t>(1, (count + most - 1) / most);
  if (windows.passes > 1) windows.passes = (windows.passes + lanes - 1) / lanes * lanes;
  const std::uint64_t each = (count + windows.passes - 1) / windows.passes;
  windows.chunk = (each + parts - 1) / parts;
  windows.chunk = std::min(longest, (windows.chunk + grain - 1) / grain * grain);
  windows.chunk = std::max<std::uint64_t>(windows.chunk, 1);
  windows.elements = windows.chunk * parts;
  windows.passes = std::max<std::uint64_t>(1, (count + windows.elements - 1) / windows.elements);
  return windows;
}

/// Cuts a call of blocks of unequal lengths. `longest_of_all` is the longest block of any rank,
/// where all ranks know it; 0: they do not, and all cut alike whatever the lengths are. `longest`
/// is the longest block of this rank. A rank may make more passes than its peer: then their
/// messages of the further passes are empty, and left out.
constexpr Windows cut_unequal_windows(std::uint64_t longest_of_all, std::uint64_t longest,
                                      std::size_t element_bytes, std::uint32_t parts,
                                      std::uint32_t message_chunks, std::uint64_t slice_bytes,
                                      std::uint32_t lanes) {
  constexpr std::uint64_t kLong = std::uint64_t{1} << 48;
  Windows windows = cut_windows(longest_of_all != 0 ? longest_of_all : kLong, element_bytes, parts,
                                message_chunks, slice_bytes, lanes);
  windows.count = longest;
  windows.passes = std::max<std::uint64_t>(1, (longest + windows.elements - 1) / windows.elements);
  return windows;
}

}  // namespace coll
