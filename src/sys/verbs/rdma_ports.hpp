// SPDX-License-Identifier: Apache-2.0
// The ports of this machine's RDMA devices, as the kernel lists them, and the choice among them.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace coll {

/// Is it an IPv4 address, written as ::ffff:a.b.c.d?
bool is_ipv4_gid(const std::array<std::uint8_t, 16>& gid);

/// An entry of a port's table of addresses.
struct RdmaGid {
  enum class Type : std::uint8_t { infiniband, roce_v1, roce_v2 };
  int index = 0;
  std::array<std::uint8_t, 16> bytes{};
  Type type = Type::infiniband;
  std::string interface;  ///< the network interface that it belongs to; empty on InfiniBand

  [[nodiscard]] bool is_zero() const;
  [[nodiscard]] bool is_ipv4() const { return is_ipv4_gid(bytes); }
  [[nodiscard]] bool is_link_local() const;
  /// As inet_ntop(3) writes it.
  [[nodiscard]] std::string text() const;
};

struct RdmaPort {
  std::string device;         ///< as "mlx5_0"
  std::uint8_t number = 1;    ///< of the port, from 1
  bool active = false;        ///< can carry traffic now
  bool ethernet = false;      ///< RoCE; else InfiniBand
  double gigabits_per_s = 0;  ///< of the link, all lanes; 0: unknown
  std::uint16_t lid = 0;      ///< 0 on Ethernet
  int numa_node = -1;         ///< -1: unknown
  std::string bus;            ///< PCI address, as "0000:0f:00.0"; empty: not on PCI
  std::vector<RdmaGid> gids;  ///< without the empty entries
  /// The network interfaces over it; on InfiniBand those of IP over it.
  std::vector<std::string> interfaces = {};
  std::string state = {};     ///< as the kernel calls it: "ACTIVE", "DOWN, Disabled"
  std::string pci_path = {};  ///< pci_path_of the device; empty: not on PCI
  std::string unfit = {};  ///< why no connection can use it in any state: "is …"; empty: it can

  /// As "mlx5_0:1".
  [[nodiscard]] std::string name() const { return device + ":" + std::to_string(number); }
};

/// All ports, by name. `sysfs` is where the kernel's tree is mounted; empty where there is no
/// device.
std::vector<RdmaPort> rdma_ports(const std::string& sysfs = "/sys");

/// A port, and the address that connections over it use.
struct RdmaRail {
  RdmaPort port;
  RdmaGid gid;
  bool near = true;         ///< to the rank; see mark_near
  bool beside_gpu = false;  ///< behind one host bridge of the PCI bus with the rank's GPU
};
/// The address that connections over this port use, or why there is none; see rdma_rails.
Result<RdmaGid> rdma_gid(const RdmaPort& port, std::string_view interface);

/// Those that connections may use, in the order of the ports: active ones that `interface`
/// (COLL_INTERFACE: names of devices, ports or their network interfaces, comma-separated, a leading
/// ^ excludes; empty: all) allows. Fails if none is left, and says of each port why not. Of a RoCE
/// port the first of these addresses: RoCE v2 with a routable IPv4, a routable IPv6, a link-local
/// one. Logs (info) which was taken of which port, and why.
Result<std::vector<RdmaRail>> rdma_rails(const std::vector<RdmaPort>& ports,
                                         std::string_view interface);

}  // namespace coll
