// SPDX-License-Identifier: Apache-2.0
// Which addresses this host has.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sys/net/net_address.hpp"

namespace coll {

/// One address of one interface that is up. The address's port is 0.
struct InterfaceAddress {
  std::string interface;  ///< "eth0"
  std::uint32_t index = 0;
  NetAddress address;
  unsigned prefix_bits = 0;  ///< of its subnet
  bool loopback = false;
};

/// Does the knob COLL_INTERFACE allow what has these names, each as good as the others? "eth0,ib":
/// only names that begin so; "^docker": all but these; "": all.
bool names_allowed(std::span<const std::string> names, std::string_view knob);

/// The allowed addresses, in the order to prefer: routable ones, link-local ones, loopback. The
/// knob may name an RDMA device or its port instead of the interfaces that lie over it. None: an
/// error that lists what there is. `sysfs` is where the kernel's tree is mounted.
Result<std::vector<InterfaceAddress>> host_addresses(std::string_view knob,
                                                     const std::string& sysfs = "/sys");

/// Where to listen so that the allowed addresses, and no others, are reached; none means
/// everywhere, where the knob allows every interface.
Result<std::vector<NetAddress>> listening_addresses(std::string_view knob);

/// This host's name, for messages only; never empty.
std::string host_name();

/// A text for the calling thread's network namespace, which no other namespace of this boot has; ""
/// if /proc does not tell.
std::string thread_network();

/// Names this boot of this machine and its network namespace: two processes that see the same text
/// reach each other over loopback. Empty where it cannot be told.
std::string network_identity();
/// The same as a number; 0 where it cannot be told: then nobody is to be taken for a neighbour.
std::uint64_t network_number();

}  // namespace coll
