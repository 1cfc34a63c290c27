// SPDX-License-Identifier: Apache-2.0
// What a TCP message costs within this kernel, measured.
#include "sys/net/loopback_costs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "base/made_once.hpp"
#include "sys/net/socket.hpp"

namespace coll {
namespace {

/// The fastest of this many sends counts: disturbances only make sends slower.
constexpr int kSends = 12;
constexpr std::chrono::milliseconds kPatience{2};

Result<double> measured_send_us() {
  COLL_ASSIGN(const Fd listener, listen_at(NetAddress::loopback(AF_INET)));
  COLL_ASSIGN(const Fd near, dial(local_address(listener.get()), Clock::now() + kPatience));
  COLL_ASSIGN(const Fd far, accept_next(listener.get()));
  if (!far) return 0.0;
  set_nodelay(near.get());
  std::array<std::byte, 24> message{};
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kSends; ++i) {
    const std::uint64_t start = now_ns();
    if (send_some(near.get(), message).bytes != message.size()) return 0.0;
    least = std::min(least, 1e-3 * static_cast<double>(now_ns() - start));
    // It is there, since there is no way that could be slow.
    if (recv_some(far.get(), message).bytes != message.size()) return 0.0;
  }
  return least;
}

}  // namespace

double loopback_send_us() {
  return made_once([] {
    const Result<double> us = measured_send_us();
    return us.ok() ? *us : 0.0;
  });
}

}  // namespace coll
