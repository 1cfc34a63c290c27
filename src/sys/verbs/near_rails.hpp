// SPDX-License-Identifier: Apache-2.0
// Which RDMA ports are near a rank.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sys/verbs/rdma_ports.hpp"

namespace coll {

/// Where a rank sits on its host.
struct RankSeat {
  int numa_node = -1;    ///< of its GPU, or that all its processors are of; -1: unknown, or several
  std::string gpu = {};  ///< the way to its GPU (pci_path_of); "": none, or unknown
};
/// Of a rank whose processors are of that node, and which uses the GPU at that PCI address ("":
/// none).
RankSeat rank_seat(int numa_node, const std::string& gpu, const std::string& sysfs = "/sys");

/// Marks the rails that are near the rank, and says which and why. Near are, of the fastest ports,
/// those that share the longest part of the PCI bus with the rank's GPU; where that tells nothing,
/// those of the rank's NUMA node. If none of them is, or `interface` (COLL_INTERFACE) names ports
/// and does not only exclude some, all are. Marks as well those that are beside the GPU.
std::string mark_near(std::vector<RdmaRail>& rails, const RankSeat& seat,
                      std::string_view interface);

}  // namespace coll
