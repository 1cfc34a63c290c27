// SPDX-License-Identifier: Apache-2.0
// Which results are large enough to go past the caches.
#include "communicator/calls/result_store.hpp"

#include <algorithm>
#include <atomic>
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

/// Measures both; `own` is what a core's own cache holds.
bool shared_cache_is_fast(std::uint64_t own) {
  // Twice as much as a core's own cache holds is copied as messages are, slice by slice out of
  // that.
  constexpr std::size_t kSlice = 64 << 10;
  // On new pages the first passes take up to three times as long. The shortest counts, once
  // kSteady passes in a row were hardly shorter.
  constexpr int kSteady = 6, kMostPasses = 16;
  const std::size_t slices = std::max<std::size_t>(2 * own / kSlice, 1);
  const std::unique_ptr<std::byte[]> slice(new (std::nothrow) std::byte[kSlice]);
  const std::unique_ptr<std::byte[]> result(new (std::nothrow) std::byte[slices * kSlice]);
  const std::unique_ptr<std::uint64_t[]> ns(new (std::nothrow) std::uint64_t[slices]);
  if (slice == nullptr || result == nullptr || ns == nullptr) return false;
  // Pages that nobody has touched are all one page of zeros.
  std::memset(slice.get(), 1, kSlice);
  // Others may take the core at any time: the median of a pass's slices counts.
  const auto slice_ns = [&](reduce::Store store) {
    const auto copy = reduce::copy_kernels().copy[static_cast<std::size_t>(store)];
    for (std::size_t i = 0; i < slices; ++i) {
      const std::uint64_t start = now_ns();
      copy(result.get() + i * kSlice, slice.get(), kSlice);
      ns[i] = now_ns() - start;
    }
    std::nth_element(ns.get(), ns.get() + slices / 2, ns.get() + slices);
    return static_cast<double>(ns[slices / 2]);
  };
  const auto least_ns = [&](reduce::Store store) {
    double least = slice_ns(store);
    for (int pass = 1, steady = 0; pass < kMostPasses && steady < kSteady; ++pass) {
      const double now = slice_ns(store);
      steady = now < 0.95 * least ? 0 : steady + 1;
      least = std::min(least, now);
    }
    return least;
  };
  const double into = least_ns(reduce::Store::cached);
  return ResultStore::is_fast(into, least_ns(reduce::Store::streaming));
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

ResultStore::Choice ResultStore::of(std::uint64_t bytes) const {
  if (bytes < own_) [[likely]]
    return {reduce::Store::cached, true};
  if (bytes >= shared_) return {reduce::Store::streaming, true};
  static constinit std::atomic<std::uint64_t> seen{0};  // bytes
  if (seen.load(std::memory_order_relaxed) < kFillsBefore * own_) {
    seen.fetch_add(bytes, std::memory_order_relaxed);
    return {reduce::Store::cached, false};
  }
  const bool fast = made_once([this] { return shared_cache_is_fast(own_); });
  return {fast ? reduce::Store::cached : reduce::Store::streaming, true};
}

}  // namespace coll
