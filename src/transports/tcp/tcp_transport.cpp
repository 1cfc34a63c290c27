// SPDX-License-Identifier: Apache-2.0
// Opens connections over the sockets that ranks meet by.
#include "transports/tcp/tcp_transport.hpp"

#include <utility>

namespace coll {

Result<std::unique_ptr<Transport>> make_tcp_transport(const TransportSpec& spec) {
  COLL_ASSIGN(std::unique_ptr<Dial> dial, Dial::open(spec, kTcpWire));
  return std::unique_ptr<Transport>(std::make_unique<TcpTransport>(std::move(dial)));
}

Transport::Limits TcpTransport::limits() const {
  // What is combined on arrival should still be in the cache; what is not goes into its place.
  return {.slot_bytes = 1 << 20, .slice_bytes = 256 << 10, .credits = 2};
}

Status TcpTransport::accepts(std::string_view peer_descriptor) const {
  return dial_->accepts(peer_descriptor);
}

PathCapabilities TcpTransport::path(std::string_view peer_descriptor) const {
  const bool one_kernel = dial_->one_kernel(peer_descriptor);
  return {.medium = one_kernel ? PathMedium::kernel : PathMedium::network};
}

Result<std::unique_ptr<Connection>> TcpTransport::open(const ConnectionSpec& spec,
                                                       std::string_view peer_descriptor) {
  COLL_ASSIGN(std::unique_ptr<DialledEnd> end, dial_->begin(spec, {}, peer_descriptor));
  return std::unique_ptr<Connection>(
      std::make_unique<TcpConnection>(spec, std::move(end), waiting_, progress_));
}

void TcpTransport::poll() {
  dial_->poll();
  const TcpConnection::Waiting waiting = waiting_;  // those that settle take themselves out
  for (TcpConnection* one : waiting) one->poll_dialled();
}

}  // namespace coll
