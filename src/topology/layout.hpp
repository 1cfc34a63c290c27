// SPDX-License-Identifier: Apache-2.0
// topology/: the machine as an immutable value. This file: all an algorithm may know of it.
#pragma once
#include <vector>

#include "base/types.hpp"

namespace coll {

/// The ranks grouped by what they share, the same value on every rank. Algorithms see this, never
/// the machine and never a byte count. Finer groups (socket, GPU, rail) will join `host` as they
/// are needed.
struct Layout {
  std::vector<std::int32_t>
      host;  ///< host[r]: number of the host of rank r, 0 … hosts-1 by first rank

  [[nodiscard]] Rank ranks() const { return static_cast<Rank>(host.size()); }
  friend bool operator==(const Layout&, const Layout&) = default;

  /// All ranks on one host.
  static Layout flat(Rank ranks) {
    return {std::vector<std::int32_t>(static_cast<std::size_t>(ranks), 0)};
  }
};

}  // namespace coll
