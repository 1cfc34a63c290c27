// SPDX-License-Identifier: Apache-2.0
// GPUs by name, by number on the PCI bus, and by the architecture that NCCL writes (makers' data
// sheets).
#include "topology/gpu_models.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "topology/reader_text.hpp"

namespace coll {
namespace {

/// Generations of PCI Express by what a name has among its words; the first that fits holds. "RTX
/// 30*" fits "RTX 3090".
struct Generation {
  std::string_view words;
  int generation;
};
constexpr std::array kGenerations{
    // NVIDIA, newest first; but numbers of Ada and Turing workstations begin as those of GeForce do
    Generation{"B100", 5}, Generation{"B200", 5}, Generation{"B300", 5}, Generation{"GB200", 5},
    Generation{"GB300", 5}, Generation{"RTX PRO", 5}, Generation{"Ada", 4}, Generation{"RTX A*", 4},
    Generation{"Quadro", 3}, Generation{"RTX 4000", 3}, Generation{"RTX 5000", 3},
    Generation{"RTX 6000", 3}, Generation{"RTX 8000", 3}, Generation{"RTX 50*", 5},
    Generation{"H100", 5}, Generation{"H200", 5}, Generation{"H800", 5}, Generation{"H20", 5},
    Generation{"GH200", 5}, Generation{"RTX 40*", 4}, Generation{"L4", 4}, Generation{"L40*", 4},
    Generation{"L20", 4}, Generation{"A100", 4}, Generation{"A800", 4}, Generation{"A30", 4},
    Generation{"A40", 4}, Generation{"A10*", 4}, Generation{"A16", 4}, Generation{"A2", 4},
    Generation{"RTX 30*", 4}, Generation{"V100*", 3}, Generation{"T4*", 3},
    Generation{"RTX 20*", 3}, Generation{"GTX 1*", 3}, Generation{"TITAN", 3},
    Generation{"P100", 3}, Generation{"P40", 3}, Generation{"P4", 3}, Generation{"M40", 3},
    Generation{"M60", 3}, Generation{"K80", 3}, Generation{"K40*", 3},
    // AMD; of three digits an RX is a Polaris, and the Radeon VII has half of what its chip can
    Generation{"MI3*", 5}, Generation{"MI25", 3}, Generation{"MI2*", 4}, Generation{"MI100", 4},
    Generation{"MI60", 4}, Generation{"MI50", 4}, Generation{"Radeon VII", 3},
    Generation{"Vega 20", 4}, Generation{"RX 9*", 5}, Generation{"RX 7*", 4},
    Generation{"RX 6*", 4}, Generation{"RX 5300*", 4}, Generation{"RX 5500*", 4},
    Generation{"RX 5600*", 4}, Generation{"RX 5700*", 4}, Generation{"RX 5*", 3},
    Generation{"RX 4*", 3}};

std::vector<std::string_view> words_of(std::string_view name) {
  return split(name, " -_/()[]");
}

/// Whether `words` follow each other in `name`; a star at the end stands for any rest of a word.
bool has_words(const std::vector<std::string_view>& name, std::string_view words) {
  const std::vector<std::string_view> wanted = split(words, " ");
  const auto fits = [](std::string_view word, std::string_view want) {
    return want.ends_with('*') ? word.starts_with(want.substr(0, want.size() - 1)) : word == want;
  };
  return std::search(name.begin(), name.end(), wanted.begin(), wanted.end(), fits) != name.end();
}

int generation_of(const Node& gpu) {
  const std::vector<std::string_view> name = words_of(gpu.model);
  for (const Generation& each : kGenerations)
    if (has_words(name, each.words)) return each.generation;
  if (std::string_view gcn = gpu.info_of("gcn"); !gcn.empty()) {
    if (gcn.starts_with("gfx")) gcn.remove_prefix(3);
    if (gcn.starts_with("94") || gcn.starts_with("95")) return 5;
    return gcn == "900" ? 3 : gcn.starts_with("9") ? 4 : 0;
  }
  const int capability = number<int>(gpu.info_of("sm")).value_or(0);
  if (capability >= 90) return 5;
  if (capability >= 80) return 4;
  return capability >= 35 ? 3 : 0;
}

}  // namespace

double usual_pci_gbytes_per_s(const Node& gpu) {
  if (gpu.kind != NodeKind::gpu) return 0;
  constexpr std::array<double, 6> kRates{0, 2.5, 5, 8, 16, 32};  // GT/s
  return pci_gbytes_per_s(kRates[static_cast<std::size_t>(generation_of(gpu))], 16);
}

bool always_linked(const Node& gpu) {
  // P100, V100, A100, A800, H100, H800, H20, H200, B200 and GB200 on SXM boards and their like.
  constexpr std::array<std::uint16_t, 15> kSxm{0x15f9, 0x1db1, 0x1db5, 0x1db8, 0x20b0,
                                               0x20b2, 0x20b3, 0x20f3, 0x2324, 0x2329,
                                               0x2330, 0x2335, 0x2336, 0x2901, 0x2941};
  // MI250X, MI250, MI300A, MI300X, MI325X, MI350X, MI355X.
  constexpr std::array<std::uint16_t, 7> kOam{0x7408, 0x740c, 0x74a0, 0x74a1,
                                              0x74a5, 0x75a0, 0x75a3};
  const auto among = [&](const auto& list) {
    return std::find(list.begin(), list.end(), gpu.pci.device) != list.end();
  };
  if (gpu.pci.vendor == kNvidiaVendor && among(kSxm)) return true;
  if (gpu.pci.vendor == kAmdVendor && among(kOam)) return true;
  const std::vector<std::string_view> name = words_of(gpu.model);
  for (const std::string_view card : {"PCIe", "PCIE", "NVL"})
    if (has_words(name, card)) return false;
  for (const std::string_view board :
       {"SXM*", "HBM3*", "H200", "H800", "H20", "B200", "B300", "GB200", "GB300", "MI250*", "MI3*"})
    if (has_words(name, board)) return true;
  return false;
}

void warn_of_missing_links(Topology& topology) {
  std::map<NodeId, std::vector<NodeId>> by_host;
  for (NodeId id = 0; id < topology.size(); ++id) {
    if (topology[id].kind != NodeKind::gpu || !always_linked(topology[id])) continue;
    by_host[topology.above(id, NodeKind::host)].push_back(id);
  }
  for (const auto& [host, gpus] : by_host) {
    const bool silent = std::all_of(gpus.begin(), gpus.end(),
                                    [&](NodeId gpu) { return topology.links_from(gpu).empty(); });
    if (!silent || gpus.size() < 2) continue;
    const Node& first = topology[gpus[0]];
    const std::string what = first.model.empty() ? label(topology, gpus[0]) : first.model;
    topology.warn(std::to_string(gpus.size()) + " GPUs of a kind that is always joined by links (" +
                  what + "), but no links are listed: plans go through PCI, and are too slow");
  }
}

}  // namespace coll
