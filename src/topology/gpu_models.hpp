// SPDX-License-Identifier: Apache-2.0
// What the name of a GPU says of it where its source is silent.
#pragma once
#include "topology/topology.hpp"

namespace coll {

/// What 16 PCI Express lanes of this GPU's generation move in one direction, 1e9 bytes/s: by its
/// name, else by the compute capability (sm) or architecture (gcn) in NCCL's files. 0: not known,
/// or no GPU.
double usual_pci_gbytes_per_s(const Node& gpu);

/// Whether GPUs of this kind are only sold on boards that join them by links (SXM, OAM).
bool always_linked(const Node& gpu);

/// Warns of each host with several such GPUs and no link at any of them: the links are there, but
/// the source does not list them, so plans go through PCI.
void warn_of_missing_links(Topology& topology);

}  // namespace coll
