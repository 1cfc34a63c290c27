// SPDX-License-Identifier: Apache-2.0
// How ranks of one job meet in pairs: a socket for each connection, between the right two.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sys/net/listeners.hpp"
#include "transports/dial/dialer.hpp"

namespace coll {

struct Dialled {
  Fd socket;
  DialOffer offer;  ///< the peer's
};

/// This end of a connection that is being made. Destroying it takes it back.
class DialledEnd {
 public:
  DialledEnd() = default;
  DialledEnd(const DialledEnd&) = delete;
  DialledEnd& operator=(const DialledEnd&) = delete;
  virtual ~DialledEnd() = default;
  /// Nothing while it is being made; then, once, the socket or why there is none.
  virtual std::optional<Result<Dialled>> take() = 0;
};

/// A rank's listener, whom it lets in, and whom it dials. Of two ranks the higher one dials. Who
/// does not know the job is dropped, and is told nothing. It outlives its ends.
class Dial {
 public:
  static Result<std::unique_ptr<Dial>> open(const TransportSpec& spec, DialWire wire);
  Dial(const Dial&) = delete;
  Dial& operator=(const Dial&) = delete;

  /// How others reach this end: text, as DialDescriptor writes it.
  [[nodiscard]] const std::string& descriptor() const { return text_; }
  /// Could the two meet? The same answer from either side.
  [[nodiscard]] Status accepts(std::string_view peer_descriptor) const;
  /// Do both run under one kernel?
  [[nodiscard]] bool one_kernel(std::string_view peer_descriptor) const;
  /// Begins to make a connection and returns at once. The peer gets `mine`.
  Result<std::unique_ptr<DialledEnd>> begin(const ConnectionSpec& connection, const DialOffer& mine,
                                            std::string_view peer_descriptor);
  /// Moves all ends forward, lets in who has dialled, drops strangers.
  void poll();

 private:
  class End;
  /// Who has dialled and is not a connection yet. `known`: it has shown that it belongs here, and
  /// waits until this end is opened too.
  struct Guest {
    Fd fd;
    NetAddress address;
    Clock::time_point since;
    DialNonce nonce;  ///< of the challenge it has got
    DialGreetingReader reader{};
    bool known = false;
  };

  Dial(const TransportSpec& spec, DialWire wire, std::vector<InterfaceAddress> addresses,
       std::string identity, Listeners listeners);
  void drop(const NetAddress& who, const std::string& why) const;
  void let_in();
  bool listen_to(Guest& guest);
  bool connect(Guest& guest);
  void fail_accepting(const Status& status);

  const TransportSpec spec_;
  const DialWire wire_;
  std::vector<InterfaceAddress> addresses_;
  Listeners listeners_;
  DialDescriptor descriptor_;
  std::string text_;
  ReadySet ready_;             ///< guests, and sockets that dial
  std::vector<End*> waiting_;  ///< ends without an answer
  std::vector<Guest> guests_;
  bool pairs_ = false;  ///< a known guest may have found its end since the last look
};

}  // namespace coll
