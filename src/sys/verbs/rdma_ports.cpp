// SPDX-License-Identifier: Apache-2.0
// Reads the ports of RDMA devices from the kernel's tree, and chooses among them.
#include "sys/verbs/rdma_ports.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "sys/folder.hpp"
#include "sys/net/net_interfaces.hpp"
#include "sys/net/rdma_interfaces.hpp"
#include "sys/text_file.hpp"
#include "sys/verbs/pci_path.hpp"

namespace coll {
namespace {

namespace fs = std::filesystem;

/// The number that a text begins with: "4: ACTIVE", "100 Gb/sec (4X EDR)", "0x1f".
template <class T>
std::optional<T> leading(std::string_view text) {
  T value{};
  std::from_chars_result result{};
  const char* const end = text.data() + text.size();
  if constexpr (std::is_floating_point_v<T>) {
    result = std::from_chars(text.data(), end, value);
  } else {
    const bool hexadecimal = text.starts_with("0x");
    result =
        std::from_chars(text.data() + (hexadecimal ? 2 : 0), end, value, hexadecimal ? 16 : 10);
  }
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

/// "fe80:0000:…": eight groups of four digits. Nothing for another text.
std::optional<std::array<std::uint8_t, 16>> gid_bytes(const std::string& text) {
  std::array<std::uint8_t, 16> bytes{};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) != 1) return std::nullopt;
  return bytes;
}

/// Empty and garbled entries are left out, and those of RoCE whose type the kernel does not say:
/// it withdraws them just now.
std::vector<RdmaGid> gids_of(const fs::path& folder, const std::vector<RdmaGidText>& filled,
                             bool ethernet) {
  std::vector<RdmaGid> gids;
  for (const RdmaGidText& entry : filled) {
    const std::string name = std::to_string(entry.index);
    const auto bytes = gid_bytes(entry.text);
    if (!bytes) continue;
    RdmaGid gid{entry.index, *bytes, RdmaGid::Type::infiniband, {}};
    // InfiniBand fills its table up with the subnet's prefix alone.
    const bool empty =
        std::all_of(bytes->begin() + 8, bytes->end(), [](std::uint8_t one) { return one == 0; });
    if (gid.is_zero() || (!ethernet && empty)) continue;
    if (ethernet) {
      const std::string type = first_line_of(folder / "gid_attrs" / "types" / name);
      if (type.empty()) continue;
      gid.type = type == "RoCE v2" ? RdmaGid::Type::roce_v2 : RdmaGid::Type::roce_v1;
      gid.interface = first_line_of(folder / "gid_attrs" / "ndevs" / name);
    }
    gids.push_back(std::move(gid));
  }
  return gids;
}

/// What follows the number: "DOWN" of "1: DOWN".
std::string word_of(const std::string& text) {
  const auto colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

/// What no state can mend; empty: nothing.
std::string unfit(const std::string& kind, const std::string& link_layer) {
  if (!kind.empty() && leading<int>(kind).value_or(1) != 1)
    return "is no InfiniBand or RoCE device but: " + word_of(kind);
  if (link_layer.empty()) return "has a link layer that cannot be read";
  if (link_layer != "InfiniBand" && link_layer != "Ethernet") {
    return "has the link layer \"" + link_layer + "\", neither InfiniBand nor Ethernet";
  }
  return {};
}

RdmaPort port_at(const fs::path& folder, std::uint8_t number) {
  const fs::path device = folder.parent_path().parent_path();
  RdmaPort port;
  port.device = device.filename().string();
  port.number = number;
  const std::string state = first_line_of(folder / "state");
  const std::string physical = first_line_of(folder / "phys_state");
  port.active = leading<int>(state) == 4;  // IBV_PORT_ACTIVE
  port.state = state.empty() ? "unknown" : word_of(state);
  if (!port.active && !physical.empty()) port.state += ", " + word_of(physical);
  const std::string link_layer = first_line_of(folder / "link_layer");
  port.ethernet = link_layer == "Ethernet";
  port.unfit = unfit(first_line_of(device / "node_type"), link_layer);
  port.gigabits_per_s = std::max(0.0, leading<double>(first_line_of(folder / "rate")).value_or(0));
  port.lid = leading<std::uint16_t>(first_line_of(folder / "lid")).value_or(0);
  port.numa_node = leading<int>(first_line_of(device / "device" / "numa_node")).value_or(-1);
  port.pci_path = pci_path_of(device / "device");
  port.bus = port.pci_path.substr(port.pci_path.rfind('/') + 1);
  const std::vector<RdmaGidText> filled = filled_rdma_gids(folder);
  port.gids = gids_of(folder, filled, port.ethernet);
  port.interfaces = interfaces_of_rdma_port(folder, filled);
  return port;
}

/// What the knob may call an address of a port.
std::vector<std::string> names_of_gid(const RdmaPort& port, const RdmaGid& gid) {
  std::vector<std::string> names{port.device, port.name()};
  if (port.ethernet) {
    if (!gid.interface.empty()) names.push_back(gid.interface);
  } else {
    names.insert(names.end(), port.interfaces.begin(), port.interfaces.end());
  }
  return names;
}

/// The order to prefer, and a word for each.
std::pair<int, const char*> rank_of(const RdmaGid& gid) {
  if (gid.is_link_local()) return {2, "link-local"};
  return gid.is_ipv4() ? std::pair{0, "IPv4"} : std::pair{1, "IPv6"};
}

/// Which address of a port is used, and why that one.
std::string text_of(const RdmaPort& port, const RdmaGid& gid) {
  std::array<char, 32> rate{};
  std::snprintf(rate.data(), rate.size(), "%.4g", port.gigabits_per_s);
  std::string text = "verbs: " + port.name() + " (" + (port.ethernet ? "RoCE" : "InfiniBand") +
                     ", " + rate.data() + " Gbit/s) is used with GID " + std::to_string(gid.index) +
                     ", " + gid.text();
  if (port.ethernet) {
    text += ": the first RoCE v2 address that is " + std::string(rank_of(gid).second);
    if (!gid.interface.empty()) text += ", of " + gid.interface;
  }
  return text;
}

}  // namespace

bool RdmaGid::is_zero() const {
  return std::ranges::all_of(bytes, [](std::uint8_t one) { return one == 0; });
}

bool is_ipv4_gid(const std::array<std::uint8_t, 16>& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](auto one) { return one == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

bool RdmaGid::is_link_local() const {
  if (is_ipv4()) return bytes[12] == 169 && bytes[13] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string RdmaGid::text() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  return text;
}

std::vector<RdmaPort> rdma_ports(const std::string& sysfs) {
  std::vector<RdmaPort> ports;
  for (const fs::path& folder : rdma_port_folders(sysfs)) {
    if (const auto number = leading<std::uint8_t>(folder.filename().string()))
      ports.push_back(port_at(folder, *number));
  }
  return ports;
}

Result<RdmaGid> rdma_gid(const RdmaPort& port, std::string_view interface) {
  const auto not_used = [&](const std::string& why) {
    return failed(Code::unsupported, port.name() + " " + why);
  };
  if (!port.unfit.empty()) return not_used(port.unfit);
  if (!port.active) return not_used("is not active but " + port.state);
  if (port.gids.empty()) return not_used("has no address (GID)");
  const RdmaGid* best = nullptr;
  bool allowed = false;
  for (const RdmaGid& gid : port.gids) {
    if (!names_allowed(names_of_gid(port, gid), interface)) continue;
    allowed = true;
    if (port.ethernet && gid.type != RdmaGid::Type::roce_v2) continue;
    // Of InfiniBand's addresses the first is the port's own; others are aliases.
    if (best == nullptr || (port.ethernet && rank_of(gid).first < rank_of(*best).first))
      best = &gid;
  }
  if (best != nullptr) return *best;
  if (!allowed)
    return not_used("is not allowed by COLL_INTERFACE=\"" + std::string(interface) + "\"");
  return not_used("has only addresses of RoCE v1");
}

Result<std::vector<RdmaRail>> rdma_rails(const std::vector<RdmaPort>& ports,
                                         std::string_view interface) {
  std::vector<RdmaRail> rails;
  std::string why_not;
  for (const RdmaPort& port : ports) {
    const Result<RdmaGid> gid = rdma_gid(port, interface);
    if (gid.ok()) {
      if (log_enabled(LogLevel::info)) log(LogLevel::info, text_of(port, *gid));
      rails.push_back({port, *gid});
      continue;
    }
    const std::string& why = gid.status().failure()->what;
    if (log_enabled(LogLevel::info)) log(LogLevel::info, "verbs: not used: " + why);
    why_not += (why_not.empty() ? "" : "; ") + why;
  }
  if (!rails.empty()) return rails;
  if (ports.empty()) {
    return failed(Code::unsupported, "this machine has no RDMA device (/sys/class/infiniband)",
                  "where there should be one: is its driver loaded, and the device visible in this "
                  "container?");
  }
  return failed(Code::unsupported, "no port of an RDMA device can be used: " + why_not,
                "ibv_devinfo -v shows the state of ports; RoCE needs an interface that is up; "
                "COLL_INTERFACE chooses among devices, ports and interfaces");
}

}  // namespace coll
