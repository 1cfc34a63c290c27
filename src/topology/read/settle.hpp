// SPDX-License-Identifier: Apache-2.0
// The rules for devices that hold whatever the source is.
#pragma once
#include "topology/topology.hpp"

namespace coll {

/// Of the PCI functions of a topology whose nodes are all there:
/// - those that compute become GPUs and those that talk become NICs (their PCI class and names),
/// - GPUs get numbers, 0 …, by a runtime's order where one names all of a host, else by their
/// place,
/// - two functions with one bus number, and uplinks that sleep, are warned of and corrected.
void settle_devices(Topology& topology);

/// A switch or port that runs at up to 5 GT/s per lane and is three times slower than what is below
/// it is idle and saves power, or virtual: PCI Express trains down and up by itself. Takes the
/// fastest link below for it.
void wake_uplinks(Topology& topology);

/// Speeds of ports above this, in 1e9 bit/s, are in another unit than the format's (kb/s for Mb/s).
inline constexpr double kFastestPort = 3200;

}  // namespace coll
