// SPDX-License-Identifier: Apache-2.0
// A rank's listener and the connections that come to it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sys/net/listeners.hpp"
#include "transports/tcp/tcp_connection.hpp"
#include "transports/tcp/tcp_descriptor.hpp"

namespace coll {

class TcpTransport final : public Transport {
 public:
  static Result<std::unique_ptr<Transport>> make(const TransportSpec& spec);

  [[nodiscard]] Limits limits() const override;
  [[nodiscard]] const std::string& descriptor() const override { return text_; }
  [[nodiscard]] Status accepts(std::string_view peer_descriptor) const override;
  [[nodiscard]] PathCapabilities path(std::string_view peer_descriptor) const override;
  Result<std::unique_ptr<Connection>> open(const ConnectionSpec& spec,
                                           std::string_view peer_descriptor) override;
  void poll() override;

 private:
  /// Who has dialled and is not a connection yet. `known`: it has shown that it belongs here, and
  /// waits until this end is opened too.
  struct Guest {
    Fd fd;
    NetAddress address;
    Clock::time_point since;
    TcpNonce nonce;  ///< of the challenge it has got
    TcpGreetingReader reader{};
    bool known = false;
  };

  TcpTransport(const TransportSpec& spec, std::vector<InterfaceAddress> addresses,
               std::string identity, Listeners listeners);
  void let_in();
  bool listen_to(Guest& guest);
  bool connect(Guest& guest);
  void fail_accepting(const Status& status);

  TransportSpec spec_;
  std::vector<InterfaceAddress> addresses_;
  Listeners listeners_;
  TcpDescriptor descriptor_;
  std::string text_;
  ReadySet ready_;  ///< guests, and sockets that dial
  TcpConnection::Waiting waiting_;
  TcpProgress progress_;
  std::vector<Guest> guests_;
  bool pairs_ = false;  ///< a known guest may have found its connection since the last look
};

}  // namespace coll
