// SPDX-License-Identifier: Apache-2.0
// The network between ranks on a described machine.
#pragma once
#include "planner/world.hpp"
#include "topology/rings/placement.hpp"
#include "topology/topology.hpp"

namespace coll {

/// What a link's rate leaves for data, after headers, acknowledgements and the rest: what published
/// runs reached of the line rate. NVLink: 370 of 450 GB/s on 8 H100, 230 of 300 on 8 A100
/// (github.com/NVIDIA/nccl-tests issues 212, 149); PCI Express: 24 of 31.5 GB/s, fourth generation,
/// as NCCL plans with (its src/graph/topo.h); networks: 193 of 200 GB/s, 91 of 100 (nccl-tests
/// issue 100).
inline constexpr double kNvlinkYield = 0.8, kXgmiYield = 0.75, kPcieYield = 0.77,
                        kNetworkYield = 0.95;
/// GB/s of one link, one direction, where no source says: NVLink 2 to 4; XGMI of an MI250X; PCI
/// Express 3 with 16 lanes; a NIC of 100 Gbit/s.
inline constexpr double kNvlink = 25, kXgmi = 50, kPcie = 15.75, kNic = 12.5;
/// GB/s within one GPU's memory, one direction: for ranks that share a GPU.
inline constexpr double kWithinGpu = 700;

/// Latencies in microseconds of one hop: of messages small enough to travel with their flags, and
/// what longer ones take more (NCCL 2.18, src/graph/tuning.cc: hwLat of rings, LL and Simple).
struct HopLatency {
  double alpha_us, long_us;
};
inline constexpr HopLatency kLinkHop{0.6, 2.8}, kPciHop{1.0, 4.7}, kNetworkHop{2.7, 11.3};
/// A GPU's block for one step, and a NIC (with whoever rings its doorbell) for one message:
/// guesses.
inline constexpr double kGpuStepUs = 0.1, kNicMessageUs = 0.3;
/// Up to so many bytes a message travels with its flags.
inline constexpr double kFlaggedBytes = 8192;

/// Links, PCI, sockets, NICs and network switches as links that messages share, a route between any
/// two ranks over them: over GPU links where there are any, else through PCI; between hosts through
/// the nearest NICs and, of equally short ways through the network, one that the ranks' numbers
/// choose. Ranks on cores talk through shared memory, and TCP between hosts. Links, devices and
/// NICs that no source gives a rate for have a usual one, and so has a host without a NIC; switches
/// and ports have none then.
Network machine_network(const Topology& topology, const Placement& placement);

/// The world of ranks placed on a machine, as plans are made from it.
World machine_world(const Topology& topology, const Placement& placement);

}  // namespace coll
