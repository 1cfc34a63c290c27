// SPDX-License-Identifier: Apache-2.0
// Which ranks may run fused kernels together.
#include "executor/device/fused/fused_seats.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace coll {
namespace {

int compare_devices(const FusedSeat& one, const FusedSeat& other) {
  return std::memcmp(one.device.bytes, other.device.bytes, sizeof one.device.bytes);
}

}  // namespace

Status check_fused_seats(std::span<const FusedSeat> seats) {
  std::vector<std::size_t> ranks(seats.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::ranges::stable_sort(
      ranks, [&](std::size_t a, std::size_t b) { return compare_devices(seats[a], seats[b]) < 0; });
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const FusedSeat &one = seats[ranks[i - 1]], &other = seats[ranks[i]];
    if (compare_devices(one, other) != 0 || std::ranges::equal(one.process, other.process))
      continue;
    return failed(Code::unsupported, "ranks " + std::to_string(ranks[i - 1]) + " and " +
                                         std::to_string(ranks[i]) +
                                         " are two processes on one GPU, whose kernels do not run "
                                         "at once");
  }
  return {};
}

unsigned ranks_on_device(std::span<const FusedSeat> seats, Rank rank) {
  const FusedSeat& own = seats[static_cast<std::size_t>(rank)];
  return static_cast<unsigned>(std::ranges::count_if(
      seats, [&](const FusedSeat& seat) { return compare_devices(seat, own) == 0; }));
}

}  // namespace coll
