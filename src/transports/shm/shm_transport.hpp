// SPDX-License-Identifier: Apache-2.0
// The transport, which makes the connections.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "sys/fd.hpp"
#include "sys/memory/memory_segment.hpp"
#include "sys/net/ready_set.hpp"
#include "transports/shm/shm_connection.hpp"
#include "transports/shm/shm_handshake.hpp"
#include "transports/transport.hpp"

namespace coll {

/// Every rank listens on an abstract Unix socket. The higher rank of a connection makes the segment
/// and sends it with its hello; the lower one maps it and answers; then the socket is closed. Both
/// also pass their arenas: one descriptor per peer is all that is kept.
class ShmTransport final : public Transport {
 public:
  ShmTransport(TransportSpec spec, ShmDescriptor descriptor, Fd listener);
  ~ShmTransport() override;

  [[nodiscard]] Limits limits() const override;
  [[nodiscard]] const std::string& descriptor() const override { return text_; }
  [[nodiscard]] Status accepts(std::string_view peer_descriptor) const override;
  [[nodiscard]] PathCapabilities path(std::string_view /*peer_descriptor*/) const override {
    return {.shares_memory = true, .medium = PathMedium::memory};
  }
  Result<std::unique_ptr<Connection>> open(const ConnectionSpec& spec,
                                           std::string_view peer_descriptor) override;
  void poll() override;

  [[nodiscard]] Rank ranks() const { return spec_.size; }
  /// The connection is destroyed before it was ready.
  void forget(const ShmConnection* connection);

 private:
  /// A connection that this rank dials.
  struct Dial {
    ShmConnection* connection;
    ConnectionSpec spec;
    std::string socket_name;
    Fd memory;
    MemorySegment segment;
    Fd socket = Fd();
    bool hello_sent = false;
    int attempts = 0;
  };
  /// A connection that this rank waits for.
  struct Awaited {
    ShmConnection* connection;
    ConnectionSpec spec;
  };
  /// A rank of this job that has dialled.
  struct Caller {
    Fd socket;
    ShmHello hello;
    Fd memory;  ///< none: it was lost for want of descriptors here
    Fd arena;   ///< none where it has none, or was lost
  };

  PeerSegments* segments_of(Rank peer, Fd arena, const ShmMemory& memory);
  [[nodiscard]] Status check(const ConnectionSpec& spec) const;
  Status dial(const ConnectionSpec& spec, std::string_view peer_descriptor,
              ShmConnection* connection);
  bool is_over(Dial& dial);
  bool hung_up(Dial& dial, const Status& failure);
  bool take_answer(Dial& dial, const ShmAnswer& answer, Fd arena);
  void accept_strangers();
  void hear_strangers();
  void meet_callers();
  bool meet(const Awaited& awaited, Caller& caller);

  TransportSpec spec_;
  ShmDescriptor descriptor_;
  std::string text_;
  Fd listener_;
  ReadySet ready_;  ///< sockets of dials
  std::vector<Dial> dials_;
  std::vector<Awaited> awaited_;
  std::vector<Fd> strangers_;  ///< have dialled, but not said who they are; oldest first
  std::vector<Caller> callers_;
  bool pairs_ = false;                     ///< a caller may have found its connection
  std::map<Rank, PeerSegments> segments_;  ///< one for all connections to a peer
};

}  // namespace coll
