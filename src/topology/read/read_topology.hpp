// SPDX-License-Identifier: Apache-2.0
// From text to the value, one function per format; docs/topology.md describes them and the rules
// for sources that lie.
#pragma once
#include <string>
#include <string_view>

#include "topology/topology.hpp"

namespace coll {

/// Any of the formats below, told apart by what the text says. `name` is for messages.
Result<Topology> read_topology(std::string_view text, std::string_view name);
/// The same, from a file; `what` that is no file and reads as one line of text is that line.
Result<Topology> read_topology_file(const std::string& what);

/// hwloc's XML, versions 1, 2 and 3.
Result<Topology> read_hwloc_xml(std::string_view text, std::string_view name);
/// The XML that NCCL and RCCL read and write (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE).
Result<Topology> read_nccl_xml(std::string_view text, std::string_view name);
/// `nvidia-smi topo -m`, as printed (with or without colours) or with tabs.
Result<Topology> read_smi_matrix(std::string_view text, std::string_view name);
/// "host:8 package:2 numa:4 core:8 gpu:4 nvlink:all nic:2@400G"
Result<Topology> read_synthetic(std::string_view text, std::string_view name);

/// Many hosts behind a network, in JSON; files that it names lie beside it, in the folder of
/// `name`.
Result<Topology> read_cluster(std::string_view text, std::string_view name);

/// Our own format: everything the value holds; reads back equal.
std::string to_json(const Topology& topology);
Result<Topology> read_topology_json(std::string_view text, std::string_view name);

}  // namespace coll
