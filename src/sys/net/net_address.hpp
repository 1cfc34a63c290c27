// SPDX-License-Identifier: Apache-2.0
// An IPv4 or IPv6 address with a port.
#pragma once
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "sys/clock.hpp"

namespace coll {

/// A value. IPv4 within IPv6 (::ffff:1.2.3.4) becomes plain IPv4, so that equal means equal.
class NetAddress {
 public:
  /// What the socket calls take.
  struct Raw {
    sockaddr_storage storage;
    socklen_t size;
    [[nodiscard]] const sockaddr* get() const {
      return reinterpret_cast<const sockaddr*>(&storage);
    }
  };

  /// "1.2.3.4:80", "[fe80::1%eth0]:80". No names (see `resolve`), and a port must be there.
  static Result<NetAddress> parse(std::string_view text);
  /// Neither AF_INET nor AF_INET6 gives an address of family 0.
  static NetAddress from_raw(const sockaddr* raw);
  /// The family's bytes in network order: 4 (AF_INET) or 16 (AF_INET6).
  static NetAddress from_bytes(int family, const std::uint8_t* bytes, std::uint16_t port,
                               std::uint32_t scope = 0);
  static NetAddress any(int family, std::uint16_t port = 0);
  static NetAddress loopback(int family, std::uint16_t port = 0);  ///< 127.0.0.1 or ::1

  [[nodiscard]] int family() const { return family_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// The interface index of a link-local address as this host counts them, else 0.
  [[nodiscard]] std::uint32_t scope() const { return scope_; }
  [[nodiscard]] const std::uint8_t* bytes() const { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const { return family_ == AF_INET ? 4 : 16; }

  [[nodiscard]] NetAddress with_port(std::uint16_t port) const;
  [[nodiscard]] NetAddress with_scope(std::uint32_t scope) const;

  /// 0.0.0.0 or ::, which to a listener is every address of the host.
  [[nodiscard]] bool is_any() const;
  [[nodiscard]] bool is_loopback() const;
  [[nodiscard]] bool is_link_local() const;
  /// Are the first `bits` bits of both the same (and the family)?
  [[nodiscard]] bool same_subnet(const NetAddress& other, unsigned bits) const;

  [[nodiscard]] Raw raw() const;
  [[nodiscard]] std::string host() const;  ///< "1.2.3.4", "fe80::1%eth0"
  [[nodiscard]] std::string text() const;  ///< "1.2.3.4:80", "[fe80::1%eth0]:80"

  friend bool operator==(const NetAddress&, const NetAddress&) = default;

 private:
  int family_ = 0;
  std::uint16_t port_ = 0;
  std::uint32_t scope_ = 0;
  std::array<std::uint8_t, 16> bytes_ = {};
};

/// "node1:80", "1.2.3.4:80" or "[::1]:80" to every address it stands for, in the resolver's order.
/// A name is looked up on a helper thread and given up at the deadline (Code::deadline); the lookup
/// itself cannot be cancelled and ends in the background.
Result<std::vector<NetAddress>> resolve(std::string_view host_and_port, Deadline deadline);

}  // namespace coll
