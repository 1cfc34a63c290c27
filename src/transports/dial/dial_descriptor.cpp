// SPDX-License-Identifier: Apache-2.0
// Descriptors as text, and ways put in order.
#include "transports/dial/dial_descriptor.hpp"

#include <algorithm>

#include "sys/text_file.hpp"

namespace coll {
namespace {

constexpr std::size_t kMostAddresses = 64;

bool same_host(const std::string& one, const std::string& other) {
  return !one.empty() && one == other;
}

bool holds(const std::vector<NetAddress>& list, const NetAddress& address) {
  return std::ranges::any_of(
      list, [&](const auto& one) { return one.with_port(address.port()) == address; });
}

/// Has `one` an address of this family that another host can tell from its own?
bool offers(const DialDescriptor& one, const DialDescriptor& to, int family) {
  return std::ranges::any_of(one.addresses, [&](const NetAddress& address) {
    return address.family() == family && !address.is_loopback() && !holds(to.addresses, address);
  });
}

}  // namespace

std::string DialDescriptor::text() const {
  std::string text = std::string(wire.name) + "/" + std::to_string(wire.version) + " " +
                     std::to_string(port) + " " + (identity.empty() ? "-" : identity);
  for (const NetAddress& address : addresses) text += " " + address.with_scope(0).host();
  return text;
}

Result<DialDescriptor> DialDescriptor::parse(std::string_view text, DialWire wire) {
  DialDescriptor result;
  result.wire = wire;
  std::string_view rest = text.substr(0, 8192);
  std::string_view head = take_word(rest);
  const bool named = head.starts_with(wire.name) && head.substr(wire.name.size()).starts_with('/');
  if (named) head.remove_prefix(wire.name.size() + 1);
  const std::string_view port = take_word(rest);
  result.identity = take_word(rest);
  if (!named || !is_number(head, result.wire.version) || !is_number(port, result.port) ||
      result.identity.empty()) {
    return failed(Code::mismatch,
                  "\"" + std::string(text.substr(0, 80)) + "\" is no " + std::string(wire.name) +
                      " descriptor",
                  "run the same version of the library on all ranks");
  }
  if (result.identity == "-") result.identity.clear();
  // Later versions may write what follows in another way.
  if (result.wire.version != wire.version) return result;
  while (result.addresses.size() < kMostAddresses) {
    const std::string word(take_word(rest));
    if (word.empty()) break;
    COLL_ASSIGN(const NetAddress address,
                NetAddress::parse((word.find(':') == std::string::npos ? word : "[" + word + "]") +
                                  ":" + std::to_string(result.port)));
    result.addresses.push_back(address);
  }
  return result;
}

bool of_one_kernel(const DialDescriptor& one, const DialDescriptor& other) {
  // An identity is the boot, then the namespace.
  const auto boot = [](const DialDescriptor& of) {
    return of.identity.substr(0, of.identity.find('/'));
  };
  return same_host(boot(one), boot(other));
}

Status dial_accepts(const DialDescriptor& one, const DialDescriptor& other) {
  if (one.wire.version != other.wire.version) {
    return failed(Code::mismatch,
                  std::string(one.wire.name) +
                      " wire versions differ: " + std::to_string(one.wire.version) + " here, " +
                      std::to_string(other.wire.version) + " there",
                  "run the same version of the library on all ranks");
  }
  if (same_host(one.identity, other.identity) && !one.addresses.empty() &&
      !other.addresses.empty()) {
    return {};
  }
  for (const int family : {AF_INET, AF_INET6}) {
    if (offers(one, other, family) && offers(other, one, family)) return {};
  }
  return failed(
      Code::unreachable,
      "no pair of addresses to try: \"" + one.text() + "\" here, \"" + other.text() + "\" there",
      "check COLL_INTERFACE on both hosts");
}

std::vector<NetAddress> dial_ways(const std::vector<InterfaceAddress>& mine,
                                  const std::string& identity, const DialDescriptor& peer) {
  const bool same = same_host(identity, peer.identity);
  const auto is_mine = [&](const NetAddress& address) {
    return std::ranges::any_of(
        mine, [&](const auto& one) { return one.address.with_scope(0) == address.with_port(0); });
  };
  std::vector<NetAddress> near;
  std::vector<NetAddress> far;
  std::vector<NetAddress> links;
  for (const NetAddress& address : peer.addresses) {
    if (address.is_loopback()) {
      if (same) near.insert(near.begin(), address);
    } else if (!same && is_mine(address)) {
      continue;
    } else if (address.is_link_local() && address.family() == AF_INET6) {
      for (const InterfaceAddress& one : mine) {
        if (one.address.is_link_local() && one.address.family() == AF_INET6) {
          links.push_back(address.with_scope(one.index));
        }
      }
    } else if (std::ranges::any_of(mine, [&](const InterfaceAddress& one) {
                 return one.prefix_bits > 0 && one.address.same_subnet(address, one.prefix_bits);
               })) {
      near.push_back(address);
    } else {
      (address.is_link_local() ? links : far).push_back(address);
    }
  }
  near.insert(near.end(), far.begin(), far.end());
  near.insert(near.end(), links.begin(), links.end());
  return near;
}

}  // namespace coll
