// SPDX-License-Identifier: Apache-2.0
// Which of a transport's connections are allowed.
#include "transports/transport.hpp"

namespace coll {
namespace {

constexpr std::size_t kMostSlotBytes = std::size_t{1} << 30;
constexpr std::uint32_t kMostCredits = 1 << 16;
constexpr std::size_t kMostBytes = std::size_t{1} << 40;  // of all slots of one direction

}  // namespace

Status check_connection(const TransportSpec& self, const ConnectionSpec& spec) {
  if (spec.peer < 0 || spec.peer >= self.size || spec.peer == self.rank) {
    return failed(Code::invalid_argument,
                  "rank " + std::to_string(self.rank) + " of " + std::to_string(self.size) +
                      " cannot connect to rank " + std::to_string(spec.peer));
  }
  if (spec.slot_bytes == 0 || spec.slot_bytes % 64 != 0 || spec.slot_bytes > kMostSlotBytes ||
      spec.credits == 0 || spec.credits > kMostCredits ||
      spec.slot_bytes * spec.credits > kMostBytes) {
    return failed(
        Code::invalid_argument,
        "no connection has " + std::to_string(spec.credits) + " slots of " +
            std::to_string(spec.slot_bytes) + " bytes",
        "slots are multiples of 64 bytes, at most 1 GiB, credits 1 to 65536, 1 TiB in all");
  }
  return {};
}

}  // namespace coll
