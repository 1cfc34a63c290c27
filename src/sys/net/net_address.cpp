// SPDX-License-Identifier: Apache-2.0
// Addresses parsed, printed, looked up.
#include "sys/net/net_address.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "sys/own_thread.hpp"

namespace coll {
namespace {

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};

Result<HostPort> split(std::string_view text) {
  const auto bad = [&](const char* why) {
    return failed(Code::invalid_argument, "address \"" + std::string(text) + "\": " + why,
                  "write HOST:PORT, 1.2.3.4:80 or [::1]:80");
  };
  std::string_view host;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return bad("the [ is not closed");
    host = text.substr(1, end - 1);
    if (!text.substr(end).starts_with("]:")) return bad("there is no port");
    port = text.substr(end + 2);
  } else {
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) return bad("there is no port");
    if (text.find(':', colon + 1) != std::string_view::npos) {
      return bad("an IPv6 address needs [ ] around it");
    }
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.empty()) return bad("there is no host");
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || error != std::errc() || end != port.data() + port.size()) {
    return bad("the port is not a number from 0 to 65535");
  }
  return HostPort{std::string(host), number};
}

/// Family 0 if `host` is no numeric address.
NetAddress numeric(const HostPort& from) {
  std::array<std::uint8_t, 16> bytes{};
  if (inet_pton(AF_INET, from.host.c_str(), bytes.data()) == 1) {
    return NetAddress::from_bytes(AF_INET, bytes.data(), from.port);
  }
  const auto percent = from.host.find('%');
  if (inet_pton(AF_INET6, from.host.substr(0, percent).c_str(), bytes.data()) != 1) return {};
  std::uint32_t scope = 0;
  if (percent != std::string::npos) {
    const std::string zone = from.host.substr(percent + 1);
    scope = if_nametoindex(zone.c_str());
    if (scope == 0) std::from_chars(zone.data(), zone.data() + zone.size(), scope);
    if (scope == 0) return {};
  }
  return NetAddress::from_bytes(AF_INET6, bytes.data(), from.port, scope);
}

struct Found {
  int error = 0;         ///< as getaddrinfo's
  int system_error = 0;  ///< errno, where `error` says so
  std::vector<NetAddress> addresses;
};

/// What the looking-up thread and the waiting one share; the last of them frees it.
struct Lookup {
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  Found found;
};

Found look_up(const HostPort& what) {
  Found found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  found.error = getaddrinfo(what.host.c_str(), nullptr, &hints, &first);
  if (found.error == EAI_SYSTEM) found.system_error = errno;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found.error == 0 ? first : nullptr,
                                                                freeaddrinfo);
  for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    const NetAddress address = NetAddress::from_raw(one->ai_addr).with_port(what.port);
    if (address.family() == 0 || std::ranges::count(found.addresses, address) != 0) continue;
    found.addresses.push_back(address);
  }
  return found;
}

void look_up_for(Lookup& lookup, const HostPort& what) noexcept {
  Found found;
  try {
    found = look_up(what);
  } catch (const std::bad_alloc&) {
    found.error = EAI_MEMORY;
  }
  const std::lock_guard lock(lookup.mutex);
  lookup.done = true;
  lookup.found = std::move(found);
  lookup.finished.notify_all();
}

}  // namespace

NetAddress NetAddress::from_bytes(int family, const std::uint8_t* bytes, std::uint16_t port,
                                  std::uint32_t scope) {
  NetAddress address;
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (family == AF_INET6 && std::equal(kMapped.begin(), kMapped.end(), bytes)) {
    family = AF_INET;
    bytes += kMapped.size();
  }
  if (family != AF_INET && family != AF_INET6) return address;
  address.family_ = family;
  address.port_ = port;
  address.scope_ = family == AF_INET6 ? scope : 0;
  std::copy_n(bytes, address.size(), address.bytes_.begin());
  return address;
}

NetAddress NetAddress::from_raw(const sockaddr* raw) {
  if (raw != nullptr && raw->sa_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, raw, sizeof in);
    return from_bytes(AF_INET, reinterpret_cast<const std::uint8_t*>(&in.sin_addr),
                      ntohs(in.sin_port));
  }
  if (raw != nullptr && raw->sa_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, raw, sizeof in);
    return from_bytes(AF_INET6, in.sin6_addr.s6_addr, ntohs(in.sin6_port), in.sin6_scope_id);
  }
  return {};
}

NetAddress NetAddress::any(int family, std::uint16_t port) {
  constexpr std::array<std::uint8_t, 16> kZero{};
  return from_bytes(family, kZero.data(), port);
}

NetAddress NetAddress::loopback(int family, std::uint16_t port) {
  constexpr std::array<std::uint8_t, 16> kFour{127, 0, 0, 1};
  constexpr std::array<std::uint8_t, 16> kSix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return from_bytes(family, family == AF_INET ? kFour.data() : kSix.data(), port);
}

NetAddress NetAddress::with_port(std::uint16_t port) const {
  NetAddress copy = *this;
  copy.port_ = port;
  return copy;
}

NetAddress NetAddress::with_scope(std::uint32_t scope) const {
  NetAddress copy = *this;
  copy.scope_ = family_ == AF_INET6 ? scope : 0;
  return copy;
}

bool NetAddress::is_any() const {
  return family_ != 0 && std::ranges::count(bytes_, 0) == std::ssize(bytes_);
}

bool NetAddress::is_loopback() const {
  if (family_ == AF_INET) return bytes_[0] == 127;
  return family_ == AF_INET6 && bytes_[15] == 1 &&
         std::all_of(bytes_.begin(), bytes_.begin() + 15, [](auto byte) { return byte == 0; });
}

bool NetAddress::is_link_local() const {
  if (family_ == AF_INET) return bytes_[0] == 169 && bytes_[1] == 254;
  return family_ == AF_INET6 && bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
}

bool NetAddress::same_subnet(const NetAddress& other, unsigned bits) const {
  if (family_ != other.family_ || family_ == 0 || bits > size() * 8) return false;
  const unsigned whole = bits / 8;
  if (!std::equal(bytes_.begin(), bytes_.begin() + whole, other.bytes_.begin())) return false;
  if (bits % 8 == 0) return true;
  return ((bytes_[whole] ^ other.bytes_[whole]) >> (8 - bits % 8)) == 0;
}

NetAddress::Raw NetAddress::raw() const {
  Raw raw{};
  if (family_ == AF_INET) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port_);
    std::memcpy(&in.sin_addr, bytes_.data(), 4);
    std::memcpy(&raw.storage, &in, sizeof in);
    raw.size = sizeof in;
  } else {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port_);
    in.sin6_scope_id = scope_;
    std::memcpy(&in.sin6_addr, bytes_.data(), 16);
    std::memcpy(&raw.storage, &in, sizeof in);
    raw.size = sizeof in;
  }
  return raw;
}

std::string NetAddress::host() const {
  if (family_ == 0) return "nowhere";
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(family_, bytes_.data(), text, sizeof text);
  std::string host = text;
  if (scope_ != 0) {
    char name[IF_NAMESIZE] = {};
    host += '%';
    host += if_indextoname(scope_, name) != nullptr ? name : std::to_string(scope_);
  }
  return host;
}

std::string NetAddress::text() const {
  const std::string port = ":" + std::to_string(port_);
  return family_ == AF_INET6 ? "[" + host() + "]" + port : host() + port;
}

Result<NetAddress> NetAddress::parse(std::string_view text) {
  COLL_ASSIGN(const HostPort parts, split(text));
  const NetAddress address = numeric(parts);
  if (address.family() == 0) {
    return failed(Code::invalid_argument,
                  "address \"" + std::string(text) + "\": \"" + parts.host +
                      "\" is no IPv4 or IPv6 address of a network that this host has",
                  "write 1.2.3.4:80, [::1]:80 or [fe80::1%eth0]:80");
  }
  return address;
}

Result<std::vector<NetAddress>> resolve(std::string_view host_and_port, Deadline deadline) {
  COLL_ASSIGN(HostPort parts, split(host_and_port));
  if (const NetAddress address = numeric(parts); address.family() != 0) {
    return std::vector<NetAddress>{address};
  }
  const auto too_late = [&] {
    return failed(Code::deadline, "looking up the host name \"" + parts.host + "\" took too long",
                  "check this host's name service, or give a numeric address");
  };
  if (Clock::now() >= deadline) return too_late();
  const auto lookup = std::make_shared<Lookup>();
  COLL_ASSIGN(std::thread thread, start_thread("coll-lookup", "to look up \"" + parts.host + "\"",
                                               [lookup, parts] { look_up_for(*lookup, parts); }));
  thread.detach();
  std::unique_lock lock(lookup->mutex);
  const auto done = [&] { return lookup->done; };
  if (deadline == Deadline::max()) {
    lookup->finished.wait(lock, done);
  } else if (!lookup->finished.wait_until(lock, deadline, done)) {
    return too_late();
  }
  Found& found = lookup->found;
  if (found.error == EAI_MEMORY) return Status::out_of_memory();
  if (found.error != 0 || found.addresses.empty()) {
    const char* why = found.error != 0 ? gai_strerror(found.error) : "it has no address";
    return failed(Code::unreachable, "looking up the host name \"" + parts.host + "\": " + why,
                  "check the name, or give a numeric address", found.system_error);
  }
  return std::move(found.addresses);
}

}  // namespace coll
