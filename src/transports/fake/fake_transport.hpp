// SPDX-License-Identifier: Apache-2.0
// The transport between ranks of one process, for tests.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "transports/fake/fake_connection.hpp"
#include "transports/fake/fake_network.hpp"
#include "transports/transport.hpp"

namespace coll {

/// For tests of whatever stands on transports: it keeps the contract of transport.hpp in all the
/// ways that the contract allows and real networks seldom show. It takes locks; no other does.
class FakeTransport final : public Transport {
 public:
  FakeTransport(std::shared_ptr<FakeNetwork> network, TransportSpec spec);
  ~FakeTransport() override;

  [[nodiscard]] Limits limits() const override { return network_->script().limits; }
  [[nodiscard]] const std::string& descriptor() const override { return descriptor_; }
  [[nodiscard]] Status accepts(std::string_view peer_descriptor) const override;
  [[nodiscard]] PathCapabilities path(std::string_view /*peer_descriptor*/) const override {
    return network_->script().path;
  }
  Result<std::unique_ptr<Connection>> open(const ConnectionSpec& spec,
                                           std::string_view peer_descriptor) override;
  void poll() override;

  /// The connection is destroyed before it was ready.
  void forget(const FakeConnection* connection);

 private:
  [[nodiscard]] std::string network_name() const;

  std::shared_ptr<FakeNetwork> network_;
  TransportSpec spec_;
  std::uint64_t id_;
  std::string descriptor_;
  std::vector<FakeConnection*> connecting_;
};

/// A transport of one rank; those of the same network reach each other.
std::unique_ptr<Transport> make_fake_transport(std::shared_ptr<FakeNetwork> network,
                                               const TransportSpec& spec);

}  // namespace coll
