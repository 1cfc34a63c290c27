// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: which results are large enough to go past
// the caches.
#include "communicator/result_store.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

namespace coll {
namespace {

/// Where the system does not say.
constexpr std::uint64_t kUsualOwn = std::uint64_t{2} << 20;

std::uint64_t own_bytes(const CoreCaches& caches) {
  return caches.own > 0 ? caches.own : kUsualOwn;
}

/// Does it take longer to store a result past the caches than into the shared one? Twice as much as
/// a core's own cache holds is copied as messages are, slice by slice out of that. It took twice to
/// three times as long where the shared cache is fast, where it is not as long
/// (docs/performance.md).
bool shared_is_fast(const CoreCaches& caches) {
  constexpr int kRounds = 3;
  constexpr double kLonger = 1.5;
  constexpr std::size_t kSlice = 64 << 10;
  const std::size_t bytes = 2 * own_bytes(caches) / kSlice * kSlice;
  const std::unique_ptr<std::byte[]> slice(new (std::nothrow) std::byte[kSlice]);
  const std::unique_ptr<std::byte[]> result(new (std::nothrow) std::byte[bytes]);
  if (slice == nullptr || result == nullptr) return false;
  // Pages that nobody has touched are all one page of zeros.
  std::memset(slice.get(), 1, kSlice);
  std::memset(result.get(), 1, bytes);
  double least_us[2] = {std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::infinity()};
  for (int round = 0; round < kRounds; ++round) {
    for (const std::size_t store : {0, 1}) {
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t at = 0; at < bytes; at += kSlice)
        reduce::copy_kernels().copy[store](result.get() + at, slice.get(), kSlice);
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
      least_us[store] = std::min(least_us[store], took.count());
    }
  }
  return least_us[1] > kLonger * least_us[0];
}

}  // namespace

std::uint64_t streaming_bytes(const CoreCaches& caches, bool shared_is_fast,
                              const Neighbours& neighbours) {
  const std::uint64_t own = own_bytes(caches);
  if (!shared_is_fast) return own;
  const double most = std::ceil(std::max(1.0, neighbours.per_core) * caches.shared_by);
  const double sharing = std::clamp<double>(neighbours.ranks, 1, std::max(1.0, most));
  return std::max(own,
                  static_cast<std::uint64_t>(static_cast<double>(caches.shared) / 2 / sharing));
}

reduce::Store store_for(std::uint64_t bytes, const Neighbours& neighbours) {
  static const CoreCaches caches = core_caches();
  if (bytes < streaming_bytes(caches, false, neighbours)) return reduce::Store::cached;
  if (bytes >= streaming_bytes(caches, true, neighbours)) return reduce::Store::streaming;
  static const bool fast = shared_is_fast(caches);
  return fast ? reduce::Store::cached : reduce::Store::streaming;
}

}  // namespace coll
