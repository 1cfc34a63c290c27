// SPDX-License-Identifier: Apache-2.0
// The network of ranks that met with a GPU each, whose copy engines and kernels move the messages.
#pragma once
#include <cstdint>
#include <span>

#include "planner/networks/device_ways.hpp"
#include "planner/world.hpp"
#include "sys/cuda/device_copy_costs.hpp"

namespace coll {

/// What of a GPU moves messages: its copy engines and small kernels, one operation of a stream
/// after the other; or one kernel for the whole call, which waits for those of the other ranks.
enum class DeviceMoves : std::uint8_t { by_streams, by_fused_kernels };

/// What the ranks of a communicator know of their GPUs, and of the paths between their hosts.
struct DeviceRanks {
  const Layout& layout;
  /// Of each host of the layout. Where it has none, each rank is assumed to have a GPU of its own
  /// that reaches the others through PCI.
  std::span<const DeviceWays> ways;
  const PathCost& between;   ///< of hosts, from pinned memory to pinned memory
  bool over_network = true;  ///< paths between hosts leave the kernel, so a host's ranks share them
  /// Of each rank, as it measured its GPU; empty: no rank did. Of ranks that share a GPU the one
  /// counts that was disturbed the least.
  std::span<const DeviceCopyCosts> measured = {};
  DeviceMoves moves = DeviceMoves::by_streams;  ///< fused kernels are on one host
};

/// Builds the network. It differs from that of a described machine in who works:
///
/// - A step of streams is a few operations, which the processor enqueues: a copy or a kernel, and
///   words that are waited for and written. No message travels with its flags. Steps of fused
///   kernels and their messages cost what they do on a described machine.
/// - Within a host a message takes the same links. A stream copies it to the peer's slot and does
///   nothing else meanwhile; the peer copies it out of the slot.
/// - Between ranks of one GPU it passes that GPU's memory twice, into the slot and out of it.
/// - Between hosts it goes through pinned memory on both sides: over PCI, then by the ranks' own
///   threads over the hosts' network, then over PCI.
/// - What was measured replaces the constants for copies within a GPU and to and from its host.
Network device_network(const DeviceRanks& ranks, const CostConstants& costs);

/// Gives a world of such ranks its networks: the plain one, and the one with what was measured, for
/// what may depend on it. Ranks no longer share cores, as far as plans know: GPUs do the work.
/// `ways` are by host of world.layout, `measured` is by rank, or empty.
void set_device_network(World& world, std::span<const DeviceWays> ways,
                        std::span<const DeviceCopyCosts> measured,
                        DeviceMoves moves = DeviceMoves::by_streams);

}  // namespace coll
