// SPDX-License-Identifier: Apache-2.0
// Several hosts in one process: ranks share memory only with those of their own.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "wrapped_transport.hpp"

namespace coll::testing {

/// A transport that reaches the ranks of one host only.
class WithinHost final : public WrappedTransport {
 public:
  WithinHost(std::unique_ptr<Transport> inner, int host)
      : WrappedTransport(std::move(inner)),
        descriptor_(static_cast<char>('a' + host) + inner_->descriptor()) {}

  [[nodiscard]] const std::string& descriptor() const override { return descriptor_; }
  [[nodiscard]] Status accepts(std::string_view peer) const override {
    if (peer.empty() || peer[0] != descriptor_[0]) {
      return failed(Code::unreachable, "another host", "none: it is so in this test");
    }
    return inner_->accepts(peer.substr(1));
  }
  [[nodiscard]] PathCapabilities path(std::string_view peer) const override {
    return inner_->path(peer.substr(1));
  }
  Result<std::unique_ptr<Connection>> open(const ConnectionSpec& spec,
                                           std::string_view peer) override {
    return inner_->open(spec, peer.substr(1));
  }

 private:
  std::string descriptor_;
};

/// Shared memory within hosts, TCP between them; hosts[r] is that of rank r.
inline std::vector<TransportChoice> on_hosts(const std::vector<int>& hosts) {
  const auto within = [hosts](const TransportSpec& spec) -> Result<std::unique_ptr<Transport>> {
    Result<std::unique_ptr<Transport>> made = make_shm_transport(spec);
    if (!made.ok()) return made.status();
    return std::unique_ptr<Transport>(
        std::make_unique<WithinHost>(*std::move(made), hosts[static_cast<std::size_t>(spec.rank)]));
  };
  return {{"shm", within}, {"tcp", make_tcp_transport}};
}

}  // namespace coll::testing
