// SPDX-License-Identifier: Apache-2.0
// What a rank publishes of its RDMA ports.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace coll {

/// Both ends must speak the same; raised whenever what they exchange changes its meaning.
inline constexpr std::uint32_t kVerbsWireVersion = 2;

/// As text: "verbs/2 PAIRS RAIL … | DIAL", a rail as "e:fe80…" or "i:fe80…" (Ethernet or
/// InfiniBand, and the 32 digits of its GID), with a capital letter if it is far from the rank.
/// DIAL is how the rank is dialled.
struct VerbsDescriptor {
  struct Rail {
    bool ethernet = false;
    std::array<std::uint8_t, 16> gid{};
    bool near = true;  ///< to the rank
  };
  std::uint32_t version = kVerbsWireVersion;
  std::uint32_t pairs = 1;  ///< queue pairs over each rail
  std::vector<Rail> rails;
  std::string dial;

  [[nodiscard]] std::string text() const;
  static Result<VerbsDescriptor> parse(std::string_view text);
};

/// Could the two talk, as far as their ports go? The same answer from either side.
Status verbs_accepts(const VerbsDescriptor& one, const VerbsDescriptor& other);

/// Queue pairs of a connection: the i-th is over the rails of number `rails[i]`, counted round and
/// round. Rails of the same number reach each other, others perhaps not. So these are the rails
/// that are near both ranks; if there are none, those that are near one of them.
struct VerbsShape {
  std::vector<std::size_t> rails;
  std::size_t pairs = 0;
};
VerbsShape verbs_shape(const VerbsDescriptor& one, const VerbsDescriptor& other);

}  // namespace coll
