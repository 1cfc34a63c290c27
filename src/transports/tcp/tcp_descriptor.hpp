// SPDX-License-Identifier: Apache-2.0
// How a rank is reached, and by which way first.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sys/net/net_interfaces.hpp"

namespace coll {

/// Both ends must speak the same; raised whenever a byte on the wire changes its meaning.
inline constexpr std::uint32_t kTcpWireVersion = 2;

/// What a rank publishes of itself. As text: "tcp/2 4242 IDENTITY 10.0.0.1 fd00::2 127.0.0.1".
struct TcpDescriptor {
  std::uint32_t version = kTcpWireVersion;
  std::uint16_t port = 0;
  std::string identity;               ///< see network_identity(); may be empty
  std::vector<NetAddress> addresses;  ///< with the port; link-local ones without a scope

  [[nodiscard]] std::string text() const;
  static Result<TcpDescriptor> parse(std::string_view text);
};

/// Do both run under one kernel, be it in different network namespaces?
bool of_one_kernel(const TcpDescriptor& one, const TcpDescriptor& other);

/// Could the two talk? The same answer from either side.
Status tcp_accepts(const TcpDescriptor& one, const TcpDescriptor& other);

/// The peer's addresses in the order to dial them: loopback where it is the same host, addresses of
/// a subnet that this host is in, other routable ones, link-local ones through each interface that
/// has such. Left out: loopback of another host, and addresses that this host has itself.
std::vector<NetAddress> tcp_ways(const std::vector<InterfaceAddress>& mine,
                                 const std::string& identity, const TcpDescriptor& peer);

}  // namespace coll
