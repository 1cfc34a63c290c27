// SPDX-License-Identifier: Apache-2.0
// Ranks over the RDMA devices of this machine, for tests that need at least two.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "sys/verbs/rdma_ports.hpp"
#include "transports/transport_backend.hpp"

namespace coll::test {

/// The active ports of this machine, by name.
inline std::vector<std::string> active_ports() {
  std::vector<std::string> names;
  for (const RdmaPort& port : rdma_ports())
    if (port.active) names.push_back(port.name());
  return names;
}

/// Each rank on a port of its own, round and round, so that messages cross the wire.
inline Result<std::unique_ptr<Transport>> make_on_own_port(const TransportSpec& spec) {
  static const std::vector<std::string> ports = active_ports();
  TransportSpec mine = spec;
  mine.interface = ports[static_cast<std::size_t>(spec.rank) % ports.size()];
  return make_verbs_transport(mine);
}

inline std::string why_no_verbs() {
  if (active_ports().size() >= 2) return {};
  return "needs two active RDMA ports (README, \"Networks with RDMA\")";
}

}  // namespace coll::test
