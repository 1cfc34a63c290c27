// SPDX-License-Identifier: Apache-2.0
// Finds GPUs by bus number, UUID or number.
#include "topology/find_gpu.hpp"

#include <algorithm>

#include "topology/reader_text.hpp"

namespace coll {
namespace {

Status no_such_gpu(const Topology& topology, const std::vector<NodeId>& gpus, std::string_view name,
                   const std::string& why) {
  std::string known;
  for (const NodeId gpu : gpus) {
    known += (known.empty() ? "" : ", ") + std::to_string(topology[gpu].index);
    if (!topology[gpu].pci.bus.empty()) known += " at " + topology[gpu].pci.bus;
  }
  return failed(
      Code::invalid_argument,
      "there is no GPU \"" + std::string(name) + "\" on this host (" + topology.source + ")" + why,
      known.empty() ? "the host has no GPUs: name none, or describe it in COLL_TOPOLOGY"
                    : "the host has GPUs " + known);
}

/// The place among `gpus` of the one whose UUID begins so.
std::optional<std::size_t> with_uuid(const Topology& topology, const std::vector<NodeId>& gpus,
                                     std::string_view beginning) {
  std::optional<std::size_t> found;
  for (std::size_t at = 0; at < gpus.size(); ++at) {
    if (!topology[gpus[at]].info_of(kUuidInfo).starts_with(beginning)) continue;
    if (found) return std::nullopt;
    found = at;
  }
  return found;
}

bool is_uuid(std::string_view name) {
  return name.starts_with("GPU-");
}

}  // namespace

Result<NodeId> find_gpu(const Topology& topology, NodeId host, std::string_view name,
                        const std::optional<std::string_view>& visible) {
  const std::vector<NodeId> gpus = topology.parts(host, NodeKind::gpu);
  if (const auto bus = bus_number(name)) {
    const auto found =
        std::ranges::find_if(gpus, [&](NodeId gpu) { return topology[gpu].pci.bus == *bus; });
    if (found == gpus.end()) return no_such_gpu(topology, gpus, name, "");
    return *found;
  }
  if (is_uuid(name)) {
    const auto found = with_uuid(topology, gpus, name);
    if (!found) return no_such_gpu(topology, gpus, name, ": no UUID, or several, begin so");
    return gpus[*found];
  }
  auto wanted = number<std::size_t>(name);
  std::string why;
  if (wanted && visible) {
    const auto list = split(*visible, ",");
    std::optional<std::size_t> entry;
    if (*wanted < list.size()) {
      const std::string_view text = trimmed(list[*wanted]);
      entry = is_uuid(text) ? with_uuid(topology, gpus, text) : number<std::size_t>(text);
    }
    why = ": CUDA_VISIBLE_DEVICES=" + std::string(*visible) +
          (list.empty() ? " hides all GPUs"
           : entry || *wanted >= list.size()
               ? ""
               : " names it by no number or known UUID; give its bus number");
    wanted = entry;
  }
  if (!wanted || *wanted >= gpus.size()) return no_such_gpu(topology, gpus, name, why);
  return gpus[*wanted];
}

std::string lasting_name(const Topology& topology, NodeId gpu) {
  if (!topology[gpu].pci.bus.empty()) return topology[gpu].pci.bus;
  const std::vector<NodeId> gpus =
      topology.parts(topology.above(gpu, NodeKind::host), NodeKind::gpu);
  return std::to_string(std::ranges::find(gpus, gpu) - gpus.begin());
}

}  // namespace coll
