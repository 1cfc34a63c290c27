// SPDX-License-Identifier: Apache-2.0
// The GPU that a program names.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "topology/topology.hpp"

namespace coll {

/// The name of a GPU's UUID among what its node's `info` says; hwloc calls it so too.
inline constexpr const char* kUuidInfo = "NVIDIAUUID";

/// The GPU of a host that `name` names: by its bus number ("0000:0f:00.0", as
/// cudaDeviceGetPCIBusId says it), by its UUID ("GPU-5e8a…", as nvidia-smi says it) or as much of
/// its beginning as no other GPU has, or by its number. Numbers count the host's GPUs as their
/// runtime does; if `visible` is there (CUDA_VISIBLE_DEVICES), they count those that it lists, as
/// CUDA's runtime does: none if it is empty. An error says which GPUs there are.
Result<NodeId> find_gpu(const Topology& topology, NodeId host, std::string_view name,
                        const std::optional<std::string_view>& visible = {});

/// A name that finds the GPU again in any process on its host: its bus number if it has one, else
/// its number.
std::string lasting_name(const Topology& topology, NodeId gpu);

}  // namespace coll
