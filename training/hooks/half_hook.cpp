// SPDX-License-Identifier: Apache-2.0
// Narrows, sums, widens.
#include "half_hook.hpp"

namespace training {

Pending HalfHook::start(const GradBucket& bucket, Traffic& traffic) {
  const std::size_t count = bucket.data.size();
  const auto wire = wire_.take(bucket.index, count * bytes_of(format_));
  narrow(format_, count, bucket.data.data(), wire.data());
  return traffic.all_reduce(wire.data(), count, format_);
}

void HalfHook::finish(const GradBucket& bucket, Traffic& /*traffic*/) {
  widen(format_, bucket.data.size(), wire_.data(bucket.index), bucket.data.data());
}

}  // namespace training
