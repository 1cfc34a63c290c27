// SPDX-License-Identifier: Apache-2.0
// Interfaces listed, filtered, ordered.
#include "sys/net/net_interfaces.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/hash.hpp"
#include "sys/net/rdma_interfaces.hpp"
#include "sys/text_file.hpp"

namespace coll {
namespace {

/// The family is taken from the address: a netmask's own family field is not always set.
unsigned prefix_bits(int family, const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const std::size_t offset =
      family == AF_INET ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
  const auto* bytes = reinterpret_cast<const unsigned char*>(mask) + offset;
  unsigned bits = 0;
  for (std::size_t i = 0; i < (family == AF_INET ? 4U : 16U); ++i) {
    bits += static_cast<unsigned>(std::popcount(bytes[i]));
  }
  return bits;
}

int preference(const InterfaceAddress& one) {
  if (one.loopback || one.address.is_loopback()) return 2;
  return one.address.is_link_local() ? 1 : 0;
}

/// An interface's own name, and the names of the RDMA devices that it lies over.
std::vector<std::string> names_of(const std::string& interface,
                                  const std::vector<RdmaInterfaces>& rdma) {
  std::vector<std::string> names{interface};
  for (const RdmaInterfaces& port : rdma) {
    if (std::ranges::count(port.interfaces, interface) == 0) continue;
    names.push_back(port.device);
    names.push_back(port.port);
  }
  return names;
}

/// "; RDMA devices: mlx5_0:1 (eth0)"; "" without any.
std::string list_of(const std::vector<RdmaInterfaces>& rdma) {
  std::string text;
  for (const RdmaInterfaces& port : rdma) {
    text += (text.empty() ? "; RDMA devices: " : ", ") + port.port + " (";
    for (const std::string& interface : port.interfaces)
      text += (&interface == port.interfaces.data() ? "" : ", ") + interface;
    text += port.interfaces.empty() ? "no interface)" : ")";
  }
  return text;
}

}  // namespace

bool names_allowed(std::span<const std::string> names, std::string_view knob) {
  const bool except = knob.starts_with('^');
  if (except) knob.remove_prefix(1);
  bool any = false;
  while (!knob.empty()) {
    const auto comma = knob.find(',');
    const std::string_view prefix = knob.substr(0, comma);
    knob.remove_prefix(comma == std::string_view::npos ? knob.size() : comma + 1);
    if (prefix.empty()) continue;
    any = true;
    for (const std::string& name : names)
      if (name.starts_with(prefix)) return !except;
  }
  return except || !any;
}

Result<std::vector<InterfaceAddress>> host_addresses(std::string_view knob,
                                                     const std::string& sysfs) {
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) return system_failure("listing the network interfaces", errno);
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(head, &freeifaddrs);

  std::vector<RdmaInterfaces> rdma;
  if (!knob.empty()) rdma = rdma_interfaces(sysfs);
  std::vector<InterfaceAddress> list;
  std::vector<std::string> all;
  for (const ifaddrs* one = head; one != nullptr; one = one->ifa_next) {
    const bool up = (one->ifa_flags & IFF_UP) != 0;
    const std::string name = one->ifa_name;
    NetAddress address = NetAddress::from_raw(one->ifa_addr);
    std::string seen = name + (up ? address.family() != 0 ? "" : " (no address)" : " (down)");
    if (std::ranges::count(all, seen) == 0) all.push_back(std::move(seen));
    if (!up || address.family() == 0 || !names_allowed(names_of(name, rdma), knob)) continue;
    list.push_back({name, if_nametoindex(one->ifa_name), address.with_port(0),
                    prefix_bits(address.family(), one->ifa_netmask),
                    (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  if (list.empty()) {
    const auto has_interface = [](const RdmaInterfaces& port) { return !port.interfaces.empty(); };
    std::string names;
    for (const std::string& name : all) {
      // An interface that is up has a second, address-less entry: its link layer.
      const auto plain = name.substr(0, name.find(' '));
      if (plain != name && std::ranges::count(all, plain) != 0) continue;
      names += (names.empty() ? "" : ", ") + name;
    }
    return failed(Code::invalid_argument,
                  "no network interface that is up and has an address is allowed by "
                  "COLL_INTERFACE=\"" +
                      std::string(knob) + "\"; there are: " + (names.empty() ? "none" : names) +
                      list_of(rdma),
                  "set COLL_INTERFACE to one of these, or leave it unset" +
                      std::string(std::ranges::all_of(rdma, has_interface)
                                      ? ""
                                      : "; ranks meet over sockets, so name an interface beside "
                                        "an RDMA device that has none (eth0,mlx5_0)"));
  }
  std::ranges::stable_sort(list, {}, preference);
  return list;
}

Result<std::vector<NetAddress>> listening_addresses(std::string_view knob) {
  std::vector<NetAddress> list;
  if (knob.empty()) return list;
  COLL_ASSIGN(const std::vector<InterfaceAddress> allowed, host_addresses(knob));
  for (const InterfaceAddress& one : allowed) list.push_back(one.address);
  return list;
}

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0 || *name == '\0') return "unknown";
  return name;
}

std::string thread_network() {
  struct stat space {};
  if (stat("/proc/thread-self/ns/net", &space) != 0) return {};
  return std::to_string(space.st_dev) + "/" + std::to_string(space.st_ino);
}

std::string network_identity() {
  const std::string boot = first_line_of("/proc/sys/kernel/random/boot_id");
  const std::string network = thread_network();
  return boot.empty() || network.empty() ? "" : boot + "/" + network;
}

std::uint64_t network_number() {
  const std::string identity = network_identity();
  return identity.empty() ? 0 : Fnv1a().text(identity).value();
}

}  // namespace coll
