// SPDX-License-Identifier: Apache-2.0
// The matrix of `nvidia-smi topo -m` as read, before it is a machine.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace coll {

struct SmiCell {
  Distance distance = Distance::unknown;
  int links = 0;  ///< of NV#
};

struct SmiDevice {
  std::string name;
  std::string alias;  ///< "mlx5_0" of NIC0
  std::string model;  ///< of a GPU, if `nvidia-smi -L` stands beside the matrix
  CpuSet cpus, numa;  ///< near it
  CpuSet own_numa;    ///< its memory as a NUMA node
};

struct SmiMatrix {
  std::vector<SmiDevice> devices;
  std::map<std::string, std::size_t> index;
  std::vector<SmiCell> cells;  ///< row by row
};

/// Adds the host to the topology: devices that are near each other behind common switches and
/// bridges, links between GPUs, direct or through NVSwitches. What no tree can say is in
/// Topology::told.
void build_smi_tree(SmiMatrix& matrix, Topology& topology);

}  // namespace coll
