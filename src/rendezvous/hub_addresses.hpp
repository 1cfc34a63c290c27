// SPDX-License-Identifier: Apache-2.0
// At which of its addresses rank 0 listens for a tcp rendezvous.
#pragma once
#include <string>
#include <vector>

#include "base/status.hpp"
#include "sys/clock.hpp"
#include "sys/net/net_address.hpp"

namespace coll {

/// What "HOST:PORT" texts mean to the host that runs rank 0: those addresses of HOST that are its
/// own. For `Listeners::open`: none means all.
///
/// Wider, at all addresses of the interfaces that `interfaces` (COLL_INTERFACE) allows, where the
/// host's own view says too little:
/// - HOST is 0.0.0.0 or [::], which asks for that;
/// - HOST is a name, not localhost, and loopback here, as Debian writes it into /etc/hosts: other
///   hosts know it by another address;
/// - no HOST is an address of this host (a forwarded one, a service's), or none can be looked up:
///   a warning says so.
Result<std::vector<NetAddress>> hub_addresses(const std::vector<std::string>& texts,
                                              const std::string& interfaces,
                                              const std::string& source, Deadline deadline);

}  // namespace coll
