// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library (NVML), loaded at run time.
#include "sys/machine/nvml_library.hpp"

#include <array>

#include "sys/shared_library.hpp"

namespace coll {
namespace {

constexpr unsigned kMostLinks = 36;  // asked for; a GPU answers for those it has
// Numbers of nvml.h.
constexpr unsigned kFieldLinkState = 165;  // NVML_FI_DEV_NVLINK_GET_STATE: 1 active, 2 asleep
constexpr unsigned kReadsPeer = 0;         // NVML_P2P_CAPS_INDEX_READ
constexpr unsigned kPeerUnknown = 6;       // NVML_P2P_STATUS_UNKNOWN; 0: OK, between: why not

std::string bus_of(const NvmlPci& pci) {
  const char* text = pci.bus_id[0] != '\0' ? pci.bus_id : pci.bus_id_legacy;
  const std::size_t most = pci.bus_id[0] != '\0' ? sizeof pci.bus_id : sizeof pci.bus_id_legacy;
  std::string bus;
  for (std::size_t at = 0; at < most && text[at] != '\0'; ++at) bus += text[at];
  return bus;
}

NvmlLink::Peer peer_of(unsigned type) {
  switch (type) {  // nvmlIntNvLinkDeviceType_t
    case 0:
      return NvmlLink::Peer::gpu;
    case 1:
      return NvmlLink::Peer::processor;
    case 2:
      return NvmlLink::Peer::link_switch;
    default:
      return NvmlLink::Peer::unknown;
  }
}

/// Drivers answer the older question, the newer one or both; of GPUs from compute capability 9.0 on
/// NCCL asks the newer one only. A link that is asleep wakes up when it is used.
bool is_active(const NvmlTable& nvml, void* device, unsigned link) {
  unsigned active = 0;
  if (nvml.get_link_state != nullptr && nvml.get_link_state(device, link, &active) == 0 &&
      active == 1)
    return true;
  NvmlField state;
  state.id = kFieldLinkState;
  state.scope = link;
  return nvml.get_fields != nullptr && nvml.get_fields(device, 1, &state) == 0 &&
         state.error == 0 && state.value.natural != 0;
}

std::vector<NvmlLink> links_of(const NvmlTable& nvml, void* device) {
  std::vector<NvmlLink> links;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    if (!is_active(nvml, device, link)) continue;
    NvmlLink found;
    NvmlPci peer{};
    const bool has_bus =
        nvml.get_link_peer != nullptr && nvml.get_link_peer(device, link, &peer) == 0;
    if (has_bus) found.peer_bus = bus_of(peer);
    unsigned type = 255;
    const bool has_type =
        nvml.get_link_peer_type != nullptr && nvml.get_link_peer_type(device, link, &type) == 0;
    if (has_type) found.peer = peer_of(type);
    if (!has_bus && !has_type) continue;
    if (nvml.get_link_version != nullptr) nvml.get_link_version(device, link, &found.version);
    links.push_back(std::move(found));
  }
  return links;
}

/// `device` is null if the GPU does not answer.
NvmlGpu gpu_of(const NvmlTable& nvml, unsigned index, void*& device) {
  NvmlGpu gpu;
  NvmlPci pci{};
  if (nvml.get_handle(index, &device) != 0 || nvml.get_pci(device, &pci) != 0) {
    device = nullptr;
    return gpu;
  }
  gpu.bus = bus_of(pci);
  std::array<char, 96> name{};
  if (nvml.get_name != nullptr && nvml.get_name(device, name.data(), name.size() - 1) == 0)
    gpu.name = name.data();
  std::array<char, 96> uuid{};  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
  if (nvml.get_uuid != nullptr && nvml.get_uuid(device, uuid.data(), uuid.size()) == 0)
    gpu.uuid = uuid.data();
  if (nvml.get_pcie_generation != nullptr) nvml.get_pcie_generation(device, &gpu.pcie_generation);
  if (nvml.get_pcie_width != nullptr) nvml.get_pcie_width(device, &gpu.pcie_lanes);
  gpu.links = links_of(nvml, device);
  return gpu;
}

bool refuses_reads(const NvmlTable& nvml, void* device, void* peer) {
  unsigned status = 0;
  return device != nullptr && peer != nullptr && nvml.get_peer_status != nullptr &&
         nvml.get_peer_status(device, peer, kReadsPeer, &status) == 0 && status != 0 &&
         status < kPeerUnknown;
}

}  // namespace

Result<NvmlTable> load_nvml() {
  auto library = SharedLibrary::open({"libnvidia-ml.so.1", "libnvidia-ml.so"});
  if (!library.ok())
    return failed(Code::unsupported, "NVML cannot be loaded: " + library.status().text(),
                  "it comes with NVIDIA's driver; without their GPUs it is not needed");
  NvmlTable table;
  const bool whole = library->find("nvmlInit_v2", table.init) &&
                     library->find("nvmlShutdown", table.shutdown) &&
                     library->find("nvmlDeviceGetCount_v2", table.get_count) &&
                     library->find("nvmlDeviceGetHandleByIndex_v2", table.get_handle) &&
                     library->find("nvmlDeviceGetPciInfo_v3", table.get_pci);
  if (!whole) return failed(Code::unsupported, "NVML is too old: it lacks nvmlDeviceGetPciInfo_v3");
  library->find("nvmlDeviceGetName", table.get_name);
  library->find("nvmlDeviceGetMaxPcieLinkGeneration", table.get_pcie_generation);
  library->find("nvmlDeviceGetCurrPcieLinkWidth", table.get_pcie_width);
  library->find("nvmlDeviceGetUUID", table.get_uuid);
  library->find("nvmlDeviceGetFieldValues", table.get_fields);
  library->find("nvmlDeviceGetP2PStatus", table.get_peer_status);
  library->find("nvmlDeviceGetNvLinkState", table.get_link_state);
  library->find("nvmlDeviceGetNvLinkVersion", table.get_link_version);
  library->find("nvmlDeviceGetNvLinkRemotePciInfo_v2", table.get_link_peer);
  library->find("nvmlDeviceGetNvLinkRemoteDeviceType", table.get_link_peer_type);
  return table;
}

Result<std::vector<NvmlGpu>> nvml_gpus(const NvmlTable& nvml) {
  if (const int error = nvml.init(); error != 0)
    return failed(Code::system, "nvmlInit failed with " + std::to_string(error),
                  "does nvidia-smi work here?");
  unsigned count = 0;
  const int error = nvml.get_count(&count);
  std::vector<NvmlGpu> gpus;
  std::vector<void*> devices(error == 0 ? count : 0);
  for (unsigned index = 0; index < devices.size(); ++index)
    gpus.push_back(gpu_of(nvml, index, devices[index]));
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = a + 1; b < devices.size(); ++b)
      if (refuses_reads(nvml, devices[a], devices[b])) gpus[a].unreached.push_back(b);
  nvml.shutdown();
  if (error != 0)
    return failed(Code::system, "nvmlDeviceGetCount failed with " + std::to_string(error),
                  "does nvidia-smi work here?");
  return gpus;
}

}  // namespace coll
