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
/// InfiniBand, and the 32 digits of its GID). DIAL is how the rank is dialled.
struct VerbsDescriptor {
  struct Rail {
    bool ethernet = false;
    std::array<std::uint8_t, 16> gid{};
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

/// Queue pairs of a connection: the i-th is over the rails of number i, counted round and round.
struct VerbsShape {
  std::size_t rails = 0, pairs = 0;
};
VerbsShape verbs_shape(const VerbsDescriptor& one, const VerbsDescriptor& other);

}  // namespace coll
