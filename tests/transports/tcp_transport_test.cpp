// SPDX-License-Identifier: Apache-2.0
// The conformance suite over tcp.
#include "transports/tcp/tcp_transport.hpp"

#include "sys/net/socket.hpp"
#include "transports/conformance/transport_conformance.hpp"
#include "transports/dial/dial_descriptor.hpp"

namespace coll::test {
namespace {

/// To the door by the last address of the list: loopback.
Fd knock(std::string_view descriptor) {
  auto parsed = DialDescriptor::parse(descriptor, kTcpWire);
  if (!parsed.ok() || parsed->addresses.empty()) return {};
  auto socket = dial(parsed->addresses.back(), Clock::now() + std::chrono::seconds(5));
  return socket.ok() ? *std::move(socket) : Fd();
}

const Backend kTcp{.name = "tcp", .make = make_tcp_transport, .sees_death = true, .knock = knock};

INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformance, testing::Values(kTcp), name_of_backend);

}  // namespace
}  // namespace coll::test
