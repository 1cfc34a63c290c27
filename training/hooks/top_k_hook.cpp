// SPDX-License-Identifier: Apache-2.0
// Selects, gathers, adds up.
#include "top_k_hook.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace training {
namespace {

struct Pair {
  std::uint32_t place;
  float value;
};

/// Grows with |x|; infinities and NaN are the largest, so that they are sent.
std::uint32_t size_of(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
}

}  // namespace

std::size_t TopKHook::count(std::size_t size) const {
  const auto count = static_cast<std::size_t>(std::ceil(share_ * static_cast<double>(size)));
  return std::clamp<std::size_t>(count, 1, size);
}

Pending TopKHook::start(const GradBucket& bucket, Traffic& traffic) {
  const std::size_t size = bucket.data.size(), k = count(size);
  if (size > std::numeric_limits<std::uint32_t>::max()) {
    throw Failure("topk: a bucket of " + std::to_string(size) +
                      " gradients has too many places for 32 bits; choose another hook",
                  Failure::kBadUsage);
  }
  const auto wire = wire_.take(bucket.index, (1 + traffic.ranks()) * k * sizeof(Pair));
  auto* own = reinterpret_cast<Pair*>(wire.data());
  feedback_.add_to(bucket.bucket(), bucket.data);
  sizes_.resize(size);
  std::ranges::transform(bucket.data, sizes_.begin(), size_of);
  std::ranges::nth_element(sizes_, sizes_.begin() + static_cast<std::ptrdiff_t>(k - 1),
                           std::greater<>());
  const std::uint32_t least = sizes_[k - 1];
  // Of several with the size `least`, the first are sent.
  std::size_t with_least = static_cast<std::size_t>(
      std::count(sizes_.begin(), sizes_.begin() + static_cast<std::ptrdiff_t>(k), least));
  for (std::size_t i = 0; i < size; ++i) {
    float& value = bucket.data[i];
    const std::uint32_t own_size = size_of(value);
    if (own_size < least || (own_size == least && with_least == 0)) continue;
    if (own_size == least) --with_least;
    *own++ = {static_cast<std::uint32_t>(i), value};
    value -= value;  // 0, but NaN where it is not finite
  }
  feedback_.keep(bucket.bucket(), bucket.data);
  coll_call_t call = COLL_CALL_INIT;
  call.operation = COLL_ALL_GATHER;
  call.send = wire.data();
  call.recv = wire.data() + k * sizeof(Pair);
  call.count = k * sizeof(Pair);
  call.type = COLL_UINT8;
  return traffic.start(call, "all_gather", traffic.ranks() * k * sizeof(Pair));
}

void TopKHook::finish(const GradBucket& bucket, Traffic& traffic) {
  const std::size_t k = count(bucket.data.size());
  const auto* all = reinterpret_cast<const Pair*>(wire_.data(bucket.index)) + k;
  std::ranges::fill(bucket.data, 0.0F);
  for (std::size_t i = 0; i < traffic.ranks() * k; ++i) bucket.data[all[i].place] += all[i].value;
}

}  // namespace training
