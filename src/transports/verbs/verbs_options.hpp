// SPDX-License-Identifier: Apache-2.0
// What users may set of queue pairs: the knob COLL_VERBS.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace coll {

/// The names are those of the keys in COLL_VERBS.
struct VerbsOptions {
  int gid = -1;                    ///< index in the port's table; -1: the library chooses
  std::uint8_t service_level = 0;  ///< sl, 0 to 15
  std::uint8_t traffic_class = 0;  ///< tc, 0 to 255: the IP header's on RoCE
  std::uint16_t partition = 0;     ///< pkey: index in the port's table
  std::uint8_t timeout = 16;       ///< 4.096 us * 2^timeout until a packet is sent again, 1 to 31
  std::uint8_t retries = 7;        ///< so often, 0 to 7
  std::uint8_t pairs = 1;          ///< queue pairs of a connection over each port, 1 to 4
  std::uint32_t patience_s = 20;   ///< without any port before the connection is given up

  /// "timeout=18,tc=106". Refuses unknown keys and values out of range.
  static Result<VerbsOptions> parse(std::string_view text);
};

}  // namespace coll
