// SPDX-License-Identifier: Apache-2.0
// The matrices in hwloc's XML.
#pragma once
#include <map>

#include "topology/read/xml_text.hpp"

namespace coll {

/// hwloc's number of an object -> the node it became (an OS device: the PCI function it belongs
/// to).
using GpIndex = std::map<std::uint64_t, NodeId>;

/// Latencies between NUMA nodes; NVLink and XGMI bandwidths between devices (versions 2 and 3).
void read_hwloc_distances(const pugi::xml_node& root, Topology& topology, const GpIndex& by_gp);

/// Version 1: latencies inside of the object that they are measured in.
void read_hwloc1_distances(const std::vector<pugi::xml_node>& elements, Topology& topology);

}  // namespace coll
