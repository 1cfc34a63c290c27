// SPDX-License-Identifier: Apache-2.0
// The table of transports. A new transport has its line here, and no other file knows its name.
#include "transports/transport.hpp"

namespace coll {

std::span<const NamedTransport> named_transports() {
  static constexpr NamedTransport kTransports[] = {
      {"shm", make_shm_transport},
      {"tcp", make_tcp_transport},
  };
  return kTransports;
}

}  // namespace coll
