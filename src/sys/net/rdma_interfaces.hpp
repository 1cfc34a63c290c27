// SPDX-License-Identifier: Apache-2.0
// Which network interfaces lie over RDMA devices, so that a user may name either.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace coll {

/// A port of an RDMA device.
struct RdmaInterfaces {
  std::string device;                   ///< "mlx5_0"
  std::string port;                     ///< "mlx5_0:1"
  std::vector<std::string> interfaces;  ///< by name; empty: InfiniBand without IP
};

/// Of every port, by name: mlx5_2 before mlx5_10. `sysfs` is where the kernel's tree is mounted.
std::vector<RdmaInterfaces> rdma_interfaces(const std::string& sysfs = "/sys");

/// An entry of a port's table of addresses (GIDs).
struct RdmaGidText {
  int index = 0;
  std::string text;
};
/// The entries that have an address, by index. A table has hundreds of entries, of which the first
/// few are in use, and each costs system calls: after a long gap nobody looks for more.
std::vector<RdmaGidText> filled_rdma_gids(const std::filesystem::path& port);

/// Of one port, "…/ports/1" of the tree, which has these addresses.
std::vector<std::string> interfaces_of_rdma_port(const std::filesystem::path& port,
                                                 const std::vector<RdmaGidText>& gids);

/// The folders of all ports, in the same order.
std::vector<std::filesystem::path> rdma_port_folders(const std::string& sysfs);

}  // namespace coll
