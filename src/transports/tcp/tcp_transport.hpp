// SPDX-License-Identifier: Apache-2.0
// Sockets between hosts, and between network namespaces.
#pragma once
#include <memory>
#include <string>

#include "transports/dial/dial.hpp"
#include "transports/tcp/tcp_connection.hpp"

namespace coll {

/// How ends greet and frame; ends of another version refuse to connect.
inline constexpr DialWire kTcpWire{"tcp", 4};
static_assert(kTcpWire.version == 4 && TcpSlots::kHeaderBytes == 64,
              "another frame is another version");

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(std::unique_ptr<Dial> dial) : dial_(std::move(dial)) {}

  [[nodiscard]] Limits limits() const override;
  [[nodiscard]] const std::string& descriptor() const override { return dial_->descriptor(); }
  [[nodiscard]] Status accepts(std::string_view peer_descriptor) const override;
  [[nodiscard]] PathCapabilities path(std::string_view peer_descriptor) const override;
  Result<std::unique_ptr<Connection>> open(const ConnectionSpec& spec,
                                           std::string_view peer_descriptor) override;
  void poll() override;

 private:
  std::unique_ptr<Dial> dial_;
  TcpConnection::Waiting waiting_;
  TcpProgress progress_;
};

}  // namespace coll
