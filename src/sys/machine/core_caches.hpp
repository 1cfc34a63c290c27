// SPDX-License-Identifier: Apache-2.0
// The sizes of the caches of the core.
#pragma once
#include <cstdint>
#include <string>

namespace coll {

/// In bytes; 0 where the system does not say.
struct CoreCaches {
  std::uint64_t own = 0;        ///< of the second level
  std::uint64_t shared = 0;     ///< of the third level
  std::uint32_t shared_by = 0;  ///< how many processors share the third level
  friend bool operator==(const CoreCaches&, const CoreCaches&) = default;
};

/// Of the first processor, from ROOT/sys; where that is silent, the second level from sysconf(3),
/// which tells the third of a whole package, be it made of twelve caches.
CoreCaches core_caches(const std::string& root = "");

/// Of this machine, read once: calls should not wait for files.
const CoreCaches& own_core_caches();

}  // namespace coll
