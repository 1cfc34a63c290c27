// SPDX-License-Identifier: Apache-2.0
// One number for all that plans depend on.
#pragma once
#include <cstdint>
#include <vector>

#include "topology/topology.hpp"

namespace coll {

/// Equal for machines that deserve the same plans, and the same on every machine, with every
/// compiler, in every version of this format of hashes. In it are: parts and how they nest, caches'
/// sizes, makers' names of processors and GPUs, speeds of PCI links and ports, links, distances,
/// quotas of processor time. Not in it: the source, warnings, names, bus numbers, sizes of memory,
/// PCI devices other than GPUs and NICs, and which of the PUs this process may use, so that pinned
/// ranks agree.
std::uint64_t topology_hash(const Topology& topology);

/// The same of each host by itself, in order: equal for hosts of equal build.
std::vector<std::uint64_t> host_hashes(const Topology& topology);

}  // namespace coll
