// SPDX-License-Identifier: Apache-2.0
// Which results are large enough to go past the caches.
#include "communicator/calls/result_store.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>

#include "base/made_once.hpp"
#include "sys/clock.hpp"

namespace coll {
namespace {

/// The size of a core's own cache, where the system does not say.
constexpr std::uint64_t kUsualOwn = std::uint64_t{2} << 20;

/// Whether it takes twice to three times as long to store past the caches as into the shared one,
/// or about as long; `own` is what a core's own holds. (docs/performance.md)
bool shared_cache_is_fast(std::uint64_t own) {
  constexpr int kRounds = 3;
  // Twice as much as a core's own cache holds is copied as messages are, slice by slice out of
  // that.
  constexpr std::size_t kSlice = 64 << 10;
  // Machines lie far on either side.
  constexpr double kMuchLonger = 1.5;
  const std::size_t bytes = 2 * own / kSlice * kSlice;
  const std::unique_ptr<std::byte[]> slice(new (std::nothrow) std::byte[kSlice]);
  const std::unique_ptr<std::byte[]> result(new (std::nothrow) std::byte[bytes]);
  if (slice == nullptr || result == nullptr) return false;
  // Pages that nobody has touched are all one page of zeros.
  std::memset(slice.get(), 1, kSlice);
  std::memset(result.get(), 1, bytes);
  std::uint64_t least_ns[2] = {~std::uint64_t{0}, ~std::uint64_t{0}};
  for (int round = 0; round < kRounds; ++round) {
    for (const reduce::Store store : {reduce::Store::cached, reduce::Store::streaming}) {
      const auto how = static_cast<std::size_t>(store);
      const std::uint64_t start = now_ns();
      for (std::size_t at = 0; at < bytes; at += kSlice)
        reduce::copy_kernels().copy[how](result.get() + at, slice.get(), kSlice);
      least_ns[how] = std::min(least_ns[how], now_ns() - start);
    }
  }
  return static_cast<double>(least_ns[1]) > kMuchLonger * static_cast<double>(least_ns[0]);
}

}  // namespace

ResultStore::ResultStore(const CoreCaches& caches, const Neighbours& neighbours)
    : own_(caches.own > 0 ? caches.own : kUsualOwn), shared_(own_) {
  if (caches.shared_by == 0) return;  // nobody knows who else is there
  const double most = std::ceil(std::max(1.0, neighbours.per_core) * caches.shared_by);
  const double sharing = std::min<double>(std::max(1U, neighbours.ranks), most);
  const double part = static_cast<double>(caches.shared) / 2 / sharing;
  shared_ = std::max(own_, static_cast<std::uint64_t>(part));
}

reduce::Store ResultStore::of(std::uint64_t bytes) const {
  if (bytes < own_) [[likely]]
    return reduce::Store::cached;
  if (bytes >= shared_) return reduce::Store::streaming;
  const bool fast = made_once([this] { return shared_cache_is_fast(own_); });
  return fast ? reduce::Store::cached : reduce::Store::streaming;
}

}  // namespace coll
