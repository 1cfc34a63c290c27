// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: which results are large enough to go past
// the caches.
#pragma once
#include <cstdint>

#include "reduce/reduce.hpp"
#include "sys/core_caches.hpp"

namespace coll {

/// The ranks of a host.
struct Neighbours {
  std::uint32_t ranks = 1;
  double per_core = 1;
  [[nodiscard]] bool crowded() const { return per_core > 1; }
};

/// From how many bytes on a result is better stored past the caches. Larger than a core's own cache
/// it pushes out what is needed next, and comes back as lines to write; into a shared cache that is
/// fast it may go all the same, as long as inputs and results of all ranks that share it fit.
std::uint64_t streaming_bytes(const CoreCaches& caches, bool shared_is_fast,
                              const Neighbours& neighbours);

/// How this machine had better store a result of so many bytes. Whether its shared cache is fast is
/// measured once in a process, when that first decides, in a millisecond.
reduce::Store store_for(std::uint64_t bytes, const Neighbours& neighbours);

}  // namespace coll
