// SPDX-License-Identifier: Apache-2.0
// tests/transports/: every transport keeps the contract of transport.hpp. This file: shm does.
#include "sys/unix_socket.hpp"
#include "transport_conformance.hpp"
#include "transports/shm/shm_handshake.hpp"

namespace coll::test {
namespace {

Fd knock(std::string_view descriptor) {
  auto parsed = ShmDescriptor::parse(descriptor);
  if (!parsed.ok()) return {};
  auto socket = unix_dial(parsed->socket_name);
  return socket.ok() && socket->has_value() ? *std::move(*socket) : Fd();
}

const Backend kShm{.name = "shm", .make = make_shm_transport, .knock = knock};

INSTANTIATE_TEST_SUITE_P(Shm, TransportConformance, testing::Values(kShm), name_of_backend);

}  // namespace
}  // namespace coll::test
