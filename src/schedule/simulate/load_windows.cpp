// SPDX-License-Identifier: Apache-2.0
// The bytes of a step's message, as the simulator cuts a call.
#include "schedule/simulate/load_windows.hpp"

#include <algorithm>
#include <cmath>

namespace coll {
namespace {

std::uint32_t blocks_of(const CollectiveSpec& spec) {
  const BlockShape shape = block_shape(spec.collective, spec.ranks, spec.root, spec.root);
  return std::max({shape.input, shape.output, 1U});
}

}  // namespace

Windows windows_of(const Schedule& first, const Load& load) {
  const auto block = static_cast<std::uint64_t>(std::llround(load.bytes / blocks_of(first.spec)));
  const double slice = load.slice_bytes > 0
                           ? load.slice_bytes
                           : static_cast<double>(block + 64) * load.message_chunks + 64;
  return cut_windows(block, 1, first.chunks.parts, load.message_chunks,
                     static_cast<std::uint64_t>(slice), load.copies);
}

double bytes_in_pass(const Windows& windows, std::uint32_t parts, const Step& step,
                     std::uint64_t pass) {
  if (step.count == 0) return 0;
  const std::uint64_t begin = pass * windows.elements;
  const std::uint64_t bytes =
      std::min(windows.elements, windows.count - std::min(windows.count, begin));
  const auto begin_of = [&](std::uint64_t part) { return std::min(part * windows.chunk, bytes); };
  const std::uint32_t part = step.named().chunk % parts;
  const std::uint64_t end = std::uint64_t{part} + step.count;
  if (end <= parts) return static_cast<double>(begin_of(end) - begin_of(part));
  const std::uint64_t blocks = end / parts;  // that the range goes into, whole or not
  return static_cast<double>(blocks * begin_of(parts) + begin_of(end % parts) - begin_of(part));
}

}  // namespace coll
