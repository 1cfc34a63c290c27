// SPDX-License-Identifier: Apache-2.0
// How a rank is reached, and by which way first.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sys/net/net_interfaces.hpp"

namespace coll {

/// What a transport's ranks say to each other. Both ends must speak the same: the version is raised
/// whenever a byte on the wire, or of a greeting, changes its meaning.
struct DialWire {
  std::string_view name;  ///< of the transport, as "tcp"
  std::uint32_t version = 0;
};

/// What a rank publishes of itself. As text: "tcp/4 4242 IDENTITY 10.0.0.1 fd00::2 127.0.0.1".
struct DialDescriptor {
  DialWire wire;
  std::uint16_t port = 0;
  std::string identity;               ///< see network_identity(); may be empty
  std::vector<NetAddress> addresses;  ///< with the port; link-local ones without a scope

  [[nodiscard]] std::string text() const;
  /// One of the wire's name. Of another version it has no addresses.
  static Result<DialDescriptor> parse(std::string_view text, DialWire wire);
};

/// Do both run under one kernel, be it in different network namespaces?
bool of_one_kernel(const DialDescriptor& one, const DialDescriptor& other);

/// Could the two talk? The same answer from either side.
Status dial_accepts(const DialDescriptor& one, const DialDescriptor& other);

/// The peer's addresses in the order to dial them: loopback where it is the same host, addresses of
/// a subnet that this host is in, other routable ones, link-local ones through each interface that
/// has such. Left out: loopback of another host, and addresses that this host has itself.
std::vector<NetAddress> dial_ways(const std::vector<InterfaceAddress>& mine,
                                  const std::string& identity, const DialDescriptor& peer);

}  // namespace coll
