// SPDX-License-Identifier: Apache-2.0
// The transport between ranks of one process, for tests.
#include "transports/fake/fake_transport.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/erase_over.hpp"

namespace coll {

std::unique_ptr<Transport> make_fake_transport(std::shared_ptr<FakeNetwork> network,
                                               const TransportSpec& spec) {
  return std::make_unique<FakeTransport>(std::move(network), spec);
}

FakeTransport::FakeTransport(std::shared_ptr<FakeNetwork> network, TransportSpec spec)
    : network_(std::move(network)),
      spec_(std::move(spec)),
      id_(network_->enter()),
      descriptor_(network_name() + std::to_string(id_)) {}

FakeTransport::~FakeTransport() {
  COLL_CHECK(connecting_.empty(), "a connection outlives its transport");
  network_->leave(id_);
}

/// Two networks are two objects of one process.
std::string FakeTransport::network_name() const {
  return "fake " + std::to_string(reinterpret_cast<std::uintptr_t>(network_.get())) + " ";
}

Status FakeTransport::accepts(std::string_view peer_descriptor) const {
  if (peer_descriptor.starts_with(network_name())) return {};
  return failed(Code::unreachable, "the peer is in another fake network");
}

Result<std::unique_ptr<Connection>> FakeTransport::open(const ConnectionSpec& spec,
                                                        std::string_view peer_descriptor) {
  COLL_TRY(check_connection(spec_, spec));
  if (Status far = accepts(peer_descriptor); !far.ok()) return far.at_rank(spec.peer);
  const auto same = [&](const FakeConnection* other) {
    return other->peer() == spec.peer && other->lane() == spec.lane;
  };
  if (std::ranges::any_of(connecting_, same)) {
    return failed(Code::invalid_usage, "fake: this connection is being opened already")
        .at_rank(spec.peer);
  }
  const std::string text(peer_descriptor.substr(network_name().size()));
  const std::uint64_t peers = std::strtoull(text.c_str(), nullptr, 10);
  if (!network_->has(peers))
    return failed(Code::unreachable, "fake: rank " + std::to_string(spec.peer) + " has ended")
        .at_rank(spec.peer);
  auto connection = std::make_unique<FakeConnection>(spec, this, network_,
                                                     network_->join(spec_.rank, id_, peers, spec),
                                                     spec_.rank < spec.peer ? 0 : 1);
  connecting_.push_back(connection.get());
  return std::unique_ptr<Connection>(std::move(connection));
}

void FakeTransport::poll() {
  erase_over(connecting_, [](FakeConnection* connection) { return connection->connect(); });
}

void FakeTransport::forget(const FakeConnection* connection) {
  std::erase(connecting_, connection);
}

}  // namespace coll
