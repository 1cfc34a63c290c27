// SPDX-License-Identifier: Apache-2.0
// The simulated network between the ranks of a described machine.
#pragma once
#include "planner/world.hpp"
#include "topology/rings/placement.hpp"
#include "topology/topology.hpp"

namespace coll {

/// The share of a link's line rate that carries data, after headers, acknowledgements and other
/// overhead, taken from published runs. NVLink: 370 of 450 GB/s on 8 H100, 230 of 300 on 8 A100
/// (github.com/NVIDIA/nccl-tests issues 212, 149). PCI Express: 24 of 31.5 GB/s, fourth generation,
/// NCCL's own planning value (its src/graph/topo.h). Networks: 193 of 200 GB/s, 91 of 100
/// (nccl-tests issue 100).
inline constexpr double kNvlinkYield = 0.8, kXgmiYield = 0.75, kPcieYield = 0.77,
                        kNetworkYield = 0.95;
/// Default rates where no source gives one, in GB/s of one link in one direction: NVLink 2 to 4;
/// XGMI of an MI250X; PCI Express 3 with 16 lanes; a NIC of 100 Gbit/s.
inline constexpr double kNvlink = 25, kXgmi = 50, kPcie = 15.75, kNic = 12.5;
/// GB/s within one GPU's memory in one direction, for ranks that share a GPU.
inline constexpr double kWithinGpu = 700;

/// Latencies of one hop in microseconds: alpha_us for messages small enough to travel with their
/// flags, and long_us more for longer ones (NCCL 2.18, src/graph/tuning.cc: hwLat of rings, LL and
/// Simple).
struct HopLatency {
  double alpha_us, long_us;
};
inline constexpr HopLatency kLinkHop{0.6, 2.8}, kPciHop{1.0, 4.7}, kNetworkHop{2.7, 11.3};
/// Microseconds of a GPU's block per step, and of a NIC (including the doorbell) per message.
/// Estimates, not measured.
inline constexpr double kGpuStepUs = 0.1, kNicMessageUs = 0.3;
/// The longest message in bytes that travels with its flags.
inline constexpr double kFlaggedBytes = 8192;

/// Builds the network of a machine: GPU links, PCI, sockets, NICs and network switches become links
/// that messages share, with a route between any two ranks.
///
/// - Within a host a route takes GPU links where there are any, else PCI.
/// - Between hosts it takes the nearest NICs. Among equally short ways through the network, the
///   ranks' numbers choose one.
/// - Ranks on cores use shared memory, and TCP between hosts.
/// - Links, devices and NICs without a known rate get the default one, and so does a host without a
///   NIC. Switches and ports without a known rate limit nothing.
Network machine_network(const Topology& topology, const Placement& placement);

/// The world of ranks placed on a described machine, as input for the planner.
World machine_world(const Topology& topology, const Placement& placement);

}  // namespace coll
