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
  /// So many times results fill a core's own cache before a process measures the shared one: a
  /// program that does little would gain less than that takes.
  static constexpr std::uint64_t kFillsBefore = 64;

  struct Choice {
    reduce::Store store;
    bool settled;  ///< false: ask again at the next call
  };

  ResultStore(const CoreCaches& caches, const Neighbours& neighbours);

  /// Whether results had better stay in a shared cache, by how long it takes to store into it and
  /// past it. Measured: the latter took 0.8 times as long where they had not, 0.9 to 3 times where
  /// they had (docs/performance.md).
  static constexpr bool is_fast(double into_ns, double past_ns) { return past_ns > 0.85 * into_ns; }

  /// For a call's result of `bytes` bytes. Between the two sizes below, the speed of the shared
  /// cache decides, which a process measures once, in some milliseconds. Until then such results go
  /// into the cache, where the system has just cleared the pages of most of them.
  [[nodiscard]] Choice of(std::uint64_t bytes) const;

  /// Results of more bytes go past the caches: the first size where the shared cache is slow, the
  /// second where it is fast.
  [[nodiscard]] std::uint64_t beyond_own() const { return own_; }
  [[nodiscard]] std::uint64_t beyond_shared() const { return shared_; }

 private:
  std::uint64_t own_;
  std::uint64_t shared_;
};

}  // namespace coll
