// SPDX-License-Identifier: Apache-2.0
// Which results are large enough to go past the caches.
#pragma once
#include <cstdint>

#include "communicator/membership/membership.hpp"
#include "reduce/reduce.hpp"
#include "sys/machine/core_caches.hpp"

namespace coll {

/// How a rank had better store its results. One larger than a core's own cache pushes out what is
/// needed next, and comes back as lines to write: it goes past the caches. Into a shared cache that
/// is fast it may go all the same, as long as inputs and results of all ranks that share it fit.
class ResultStore {
 public:
  ResultStore(const CoreCaches& caches, const Neighbours& neighbours);

  /// For a result of so many bytes; between the two sizes below whether the shared cache is fast
  /// decides, which is measured once in a process, in some milliseconds.
  [[nodiscard]] reduce::Store of(std::uint64_t bytes) const;

  /// From how many bytes on results go past the caches where the shared one is slow, and where it
  /// is fast.
  [[nodiscard]] std::uint64_t beyond_own() const { return own_; }
  [[nodiscard]] std::uint64_t beyond_shared() const { return shared_; }

 private:
  std::uint64_t own_;
  std::uint64_t shared_;
};

}  // namespace coll
