// SPDX-License-Identifier: Apache-2.0
// A rendezvous' hosts, compared with this host's addresses.
#include "rendezvous/hub_addresses.hpp"

#include <algorithm>
#include <chrono>

#include "base/log.hpp"
#include "sys/net/net_interfaces.hpp"

namespace coll {
namespace {

constexpr auto kLookUpTime = std::chrono::seconds(5);

/// Means loopback on every host, as people and /etc/hosts use it.
bool is_localhost(const std::string& name) {
  const std::string first = name.substr(0, name.find('.'));
  return first == "localhost" || first == "localhost4" || first == "localhost6" ||
         first == "ip6-localhost" || first == "ip6-loopback" || name.ends_with(".localhost");
}

void add(std::vector<NetAddress>& list, const NetAddress& address) {
  if (std::ranges::count(list, address) == 0) list.push_back(address);
}

/// What the texts come to, host by host.
class Hosts {
 public:
  explicit Hosts(std::vector<InterfaceAddress> here) : here_(std::move(here)) {}

  void take(const std::string& text, Deadline deadline) {
    const std::string host = text.substr(0, text.rfind(':'));
    if (std::ranges::count(seen_, host) != 0) return;
    seen_.push_back(host);
    const Result<std::vector<NetAddress>> all = resolve(text, deadline);
    if (!all.ok()) {
      foreign_ += (foreign_.empty() ? "" : "; ") + all.status().failure()->what;
      return;
    }
    std::vector<NetAddress> ours;
    for (const NetAddress& address : *all) {
      // Who dials a wildcard on this host comes by loopback.
      const NetAddress meant = address.is_any() ? NetAddress::loopback(address.family()) : address;
      wide_ = wide_ || address.is_any();
      if (const NetAddress own = own_address(meant); own.family() != 0) add(ours, own);
    }
    const bool is_name = !NetAddress::parse(text).ok();
    if (is_name && !is_localhost(host) && !ours.empty() &&
        std::ranges::all_of(ours, &NetAddress::is_loopback)) {
      wide_ = true;
    }
    if (ours.empty()) foreign_ += (foreign_.empty() ? "" : "; ") + host + " is not this host";
    for (const NetAddress& address : ours) add(own_, address);
  }

  [[nodiscard]] bool wide() const { return wide_; }
  [[nodiscard]] const std::vector<NetAddress>& own() const { return own_; }
  [[nodiscard]] const std::string& foreign() const { return foreign_; }

 private:
  /// With its scope as this host counts it; family 0 if it is not this host's.
  [[nodiscard]] NetAddress own_address(const NetAddress& address) const {
    if (address.is_loopback()) return address.with_port(0);
    const auto found = std::ranges::find_if(here_, [&](const InterfaceAddress& one) {
      const NetAddress scoped = address.scope() == 0 ? one.address.with_scope(0) : one.address;
      return scoped == address.with_port(0);
    });
    return found == here_.end() ? NetAddress() : found->address;
  }

  std::vector<InterfaceAddress> here_;
  std::vector<std::string> seen_;
  std::vector<NetAddress> own_;
  std::string foreign_;
  bool wide_ = false;
};

}  // namespace

Result<std::vector<NetAddress>> hub_addresses(const std::vector<std::string>& texts,
                                              const std::string& interfaces,
                                              const std::string& source, Deadline deadline) {
  COLL_ASSIGN(std::vector<InterfaceAddress> here, host_addresses(""));
  Hosts hosts(std::move(here));
  for (const std::string& text : texts) {
    hosts.take(text, std::min(deadline, Clock::now() + kLookUpTime));
  }
  if (!hosts.wide() && !hosts.own().empty()) return hosts.own();
  COLL_ASSIGN(std::vector<NetAddress> addresses, listening_addresses(interfaces));
  if (!hosts.wide()) {
    log(LogLevel::warn,
        "rendezvous (" + source + "): " + hosts.foreign() + "; rank 0 listens at " +
            (addresses.empty() ? "all of its addresses" : "the addresses of COLL_INTERFACE") +
            ", in case that host leads here by another network; if not, name the host of rank 0");
  }
  if (!addresses.empty()) {
    for (const NetAddress& own : hosts.own()) add(addresses, own);
  }
  return addresses;
}

}  // namespace coll
