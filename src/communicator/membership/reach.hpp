// SPDX-License-Identifier: Apache-2.0
// What one rank's choice of paths means for the world.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <string>

#include "communicator/membership/card.hpp"
#include "planner/costs/cost_constants.hpp"
#include "rendezvous/control_message.hpp"
#include "transports/transport.hpp"

namespace coll {

/// Which kinds of path are in use: a set of PathCapabilities.
class PathKinds {
 public:
  void add(const PathCapabilities& path) {
    bits_ |= 1U << (2 * static_cast<std::uint32_t>(path.medium) + (path.shares_memory ? 1U : 0U));
  }
  void add(const PathKinds& others) { bits_ |= others.bits_; }

  [[nodiscard]] bool any() const { return bits_ != 0; }
  [[nodiscard]] bool any_shares_memory() const { return (bits_ & kSharing) != 0; }
  /// Also where there are no paths, in a world of one rank.
  [[nodiscard]] bool all_share_memory() const { return (bits_ & ~kSharing) == 0; }
  [[nodiscard]] PathMedium costliest() const {
    if (bits_ == 0) return PathMedium::memory;
    return static_cast<PathMedium>((31 - std::countl_zero(bits_)) / 2);
  }

  [[nodiscard]] std::uint32_t bits() const { return bits_; }
  /// Nothing if no set has these bits.
  static std::optional<PathKinds> of(std::uint32_t bits) {
    PathKinds kinds;
    kinds.bits_ = bits;
    return bits <= kAll ? std::optional(kinds) : std::nullopt;
  }

 private:
  static constexpr std::uint32_t kAll =
      (1U << (2 * (static_cast<std::uint32_t>(PathMedium::network) + 1))) - 1;
  static constexpr std::uint32_t kSharing = 0xAAAAAAAA & kAll;

  std::uint32_t bits_ = 0;  ///< bit 2 * medium + (shares memory)
};

/// The model's constants of a path.
inline PathCost CostConstants::*cost_of(PathMedium medium) {
  switch (medium) {
    case PathMedium::memory:
      return &CostConstants::memory;
    case PathMedium::kernel:
      return &CostConstants::kernel;
    case PathMedium::rdma:
      return &CostConstants::rdma;
    case PathMedium::network:
      break;
  }
  return &CostConstants::network;
}

/// What all ranks must know of one rank's paths; the rest is its own affair.
struct Reach {
  Rank host = 0;           ///< the first rank that it shares memory with; itself, if none before it
  std::uint32_t used = 0;  ///< bit i: it has a path by rank 0's offer i
  PathKinds kinds;         ///< of its paths
  bool fused = false;      ///< it has room for fused kernels
  std::string gpu_memory = {};  ///< then: how others try to reach its GPU (offer_memory), or ""

  void write(MessageWriter& out) const {
    out.rank(host).u32(used).u32(kinds.bits()).u8(fused ? 1 : 0).text(gpu_memory);
  }
  /// What rank `rank` published; nothing where it makes no sense beside rank 0's offers.
  static std::optional<Reach> read(MessageReader& in, Rank rank, const Card& zero) {
    Reach reach{.host = in.rank(), .used = in.u32(), .kinds = {}, .fused = false};
    const std::optional<PathKinds> kinds = PathKinds::of(in.u32());
    reach.fused = in.u8() != 0;
    reach.gpu_memory = in.text();
    if (!in.good() || !kinds || !kinds->any()) return std::nullopt;
    reach.kinds = *kinds;
    bool viable = true;
    for (std::size_t i = 0; i < zero.offers.size(); ++i) {
      viable = viable && ((reach.used >> i & 1) == 0 || zero.offers[i].viable.ok());
    }
    const bool used = reach.used != 0 && std::uint64_t{reach.used} >> zero.offers.size() == 0;
    const bool shares = reach.host == rank || kinds->any_shares_memory();
    const bool sensible = viable && used && shares && reach.host >= 0 && reach.host <= rank;
    return sensible ? std::optional(reach) : std::nullopt;
  }
};

}  // namespace coll
