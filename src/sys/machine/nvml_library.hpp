// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library, loaded at run time, asked for GPUs, their names, their PCI links,
// their NVLinks and which of them reach each other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace coll {

/// nvmlPciInfo_t, as NVML's reference manual lays it out.
struct NvmlPci {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

/// nvmlFieldValue_t of nvml.h: what is asked for and the answer, which counts if `error` is 0.
struct NvmlField {
  unsigned id = 0, scope = 0;  ///< scope: the NVLink, for a field that each link has
  long long taken_at = 0, took = 0;
  unsigned value_type = 0;
  int error = 0;
  union {
    double real;
    unsigned natural;
    unsigned long long long_natural = 0;
  } value;
};
static_assert(sizeof(NvmlField) == 40, "as in nvml.h");

/// The functions that are used, as the library has them; a test fills in its own. All return 0 for
/// success. Functions after `get_pci` may be null: what they tell is then unknown.
struct NvmlTable {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*get_count)(unsigned* count) = nullptr;
  int (*get_handle)(unsigned index, void** device) = nullptr;
  int (*get_pci)(void* device, NvmlPci* pci) = nullptr;
  int (*get_name)(void* device, char* name, unsigned length) = nullptr;
  int (*get_pcie_generation)(void* device,
                             unsigned* generation) = nullptr;      ///< the most possible here
  int (*get_pcie_width)(void* device, unsigned* lanes) = nullptr;  ///< now
  int (*get_uuid)(void* device, char* uuid, unsigned length) = nullptr;
  int (*get_fields)(void* device, int count, NvmlField* fields) = nullptr;
  int (*get_peer_status)(void* device, void* peer, unsigned capability, unsigned* status) = nullptr;
  int (*get_link_state)(void* device, unsigned link, unsigned* active) = nullptr;
  int (*get_link_version)(void* device, unsigned link, unsigned* version) = nullptr;
  int (*get_link_peer)(void* device, unsigned link, NvmlPci* pci) = nullptr;
  int (*get_link_peer_type)(void* device, unsigned link, unsigned* type) = nullptr;
};

Result<NvmlTable> load_nvml();

/// One active NVLink of a GPU.
struct NvmlLink {
  enum class Peer : std::uint8_t { gpu, processor, link_switch, unknown };
  Peer peer = Peer::unknown;
  std::string peer_bus;
  unsigned version = 0;  ///< NVLink's generation, 0: unknown
};

struct NvmlGpu {
  std::string bus;
  std::string name;
  std::string uuid;  ///< "GPU-xxxxxxxx-xxxx-…", as CUDA_VISIBLE_DEVICES takes it
  unsigned pcie_generation = 0, pcie_lanes = 0;  ///< 0: unknown
  std::vector<NvmlLink> links;
  std::vector<std::size_t> unreached;  ///< GPUs behind it in the order whose memory it cannot read
};

/// The GPUs of this machine in NVML's order. For a GPU that does not answer (fallen off the bus)
/// the entry has the number only.
Result<std::vector<NvmlGpu>> nvml_gpus(const NvmlTable& nvml);

}  // namespace coll
