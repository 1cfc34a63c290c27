// SPDX-License-Identifier: Apache-2.0
// An emulated libnvidia-ml.so.1: the GPUs of the emulated CUDA driver, as NVML tells of them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "emulation/cuda/driver/emulated_machine.hpp"

namespace emunvml {
namespace {

using emucuda::machine;

// Numbers and layouts are those of nvml.h, declared here apart from the library's own.
constexpr int kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3, kInsufficientSize = 7;
#ifndef EMUNVML_OLD
constexpr unsigned kFieldLinkState = 165, kValueUnsigned = 1;
constexpr unsigned kChipsetNotSupported = 1;
#endif

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency_us;
  unsigned type;
  int error;
  union {
    double d;
    unsigned ui;
    unsigned long long ull;
  } value;
};
static_assert(sizeof(FieldValue) == 40);

/// EMUNVML_LINKS: "gpu:4" (each two GPUs have 4 links), "switch:18" (each GPU has 18 to switches),
/// "hidden:18" (the same, and neither the kind nor the bus of the switches is told), "": none.
struct Links {
  enum class To : std::uint8_t { gpus, switches, hidden } to = To::gpus;
  int count = 0;     // of one GPU to all
  int parallel = 1;  // to one peer
  int down = 0;      // of these, the first
};

Links read_links() {
  Links read;
  const char* const text = std::getenv("EMUNVML_LINKS");
  const char* const colon = text != nullptr ? std::strchr(text, ':') : nullptr;
  if (colon == nullptr) return read;
  const std::string to(text, colon);
  read.to = to == "gpu"      ? Links::To::gpus
            : to == "switch" ? Links::To::switches
                             : Links::To::hidden;
  read.parallel = std::atoi(colon + 1);
  const char* const down = std::getenv("EMUNVML_DOWN");
  read.down = down != nullptr ? std::atoi(down) : 0;
  read.count = read.parallel * (read.to == Links::To::gpus ? machine().devices - 1 : 1);
  return read;
}

const Links& links() {
  static const Links links = read_links();
  return links;
}

/// Whether nvmlDeviceGetNvLinkState tells, or the newer question: as real drivers, by the GPU.
bool told_by_state() {
  return machine().major < 9;
}

/// Handles are devices from 1.
bool known(void* handle) {
  const auto device = reinterpret_cast<std::uintptr_t>(handle);
  return device >= 1 && device <= static_cast<std::uintptr_t>(machine().devices);
}
int device_of(void* handle) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)) - 1;
}

int text_into(const std::string& text, char* out, unsigned length) {
  if (out == nullptr) return kInvalidArgument;
  if (text.size() >= length) return kInsufficientSize;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

int put_bus(int device, PciInfo* pci) {
  *pci = {};
  pci->bus = static_cast<unsigned>(machine().pci_bus + device);
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
  std::snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "0000:%02X:00.0", pci->bus);
  return kSuccess;
}

bool has_link(void* handle, unsigned link) {
  return known(handle) && static_cast<int>(link) < links().count;
}

bool is_up(unsigned link) {
  return static_cast<int>(link) >= links().down;
}

/// The GPU at the other end: links go to the other GPUs in order.
int peer_of(int device, unsigned link) {
  const int other = static_cast<int>(link) / links().parallel;
  return other < device ? other : other + 1;
}

}  // namespace
}  // namespace emunvml

using namespace emunvml;  // NOLINT(google-build-using-namespace)

#pragma GCC visibility push(default)
extern "C" {

int nvmlInit_v2() {
  return kSuccess;
}
int nvmlShutdown() {
  return kSuccess;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(machine().devices);
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (static_cast<int>(index) >= machine().devices) return kInvalidArgument;
  *handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(index + 1));
  return kSuccess;
}

int nvmlDeviceGetPciInfo_v3(void* handle, PciInfo* pci) {
  return known(handle) ? put_bus(device_of(handle), pci) : kInvalidArgument;
}

int nvmlDeviceGetName(void* handle, char* name, unsigned length) {
  return known(handle) ? text_into(machine().name, name, length) : kInvalidArgument;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void* handle, unsigned* generation) {
  *generation = 5;
  return known(handle) ? kSuccess : kInvalidArgument;
}

int nvmlDeviceGetCurrPcieLinkWidth(void* handle, unsigned* lanes) {
  *lanes = 16;
  return known(handle) ? kSuccess : kInvalidArgument;
}

int nvmlDeviceGetNvLinkState(void* handle, unsigned link, unsigned* active) {
  if (!has_link(handle, link)) return kInvalidArgument;
  if (!told_by_state()) return kNotSupported;
  *active = is_up(link) ? 1 : 0;
  return kSuccess;
}

int nvmlDeviceGetNvLinkVersion(void* handle, unsigned link, unsigned* version) {
  if (!has_link(handle, link)) return kInvalidArgument;
  *version = machine().major < 8 ? 2 : machine().major < 9 ? 4 : machine().major < 10 ? 6 : 7;
  return kSuccess;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* handle, unsigned link, PciInfo* pci) {
  if (!has_link(handle, link)) return kInvalidArgument;
  if (links().to == Links::To::gpus) return put_bus(peer_of(device_of(handle), link), pci);
  *pci = {};
  if (links().to == Links::To::hidden) std::strcpy(pci->bus_id, "FFFFFFFF:FFFF:FF.0");
  return kSuccess;
}

// What an old driver lacks.
#ifndef EMUNVML_OLD

int nvmlDeviceGetUUID(void* handle, char* uuid, unsigned length) {
  if (!known(handle)) return kInvalidArgument;
  std::string text = "GPU";
  int at = 0;
  for (const unsigned char byte : emucuda::uuid_of(device_of(handle))) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", byte);
    if (at == 0 || at == 4 || at == 6 || at == 8 || at == 10) text += '-';
    text += digits.data();
    ++at;
  }
  return text_into(text, uuid, length);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void* handle, unsigned link, unsigned* type) {
  if (!has_link(handle, link)) return kInvalidArgument;
  if (links().to == Links::To::hidden) return kNotSupported;
  *type = links().to == Links::To::switches ? 2 : 0;
  return kSuccess;
}

int nvmlDeviceGetFieldValues(void* handle, int count, FieldValue* values) {
  if (!known(handle)) return kInvalidArgument;
  std::for_each(values, values + count, [&](FieldValue& each) {
    const bool tells = each.field == kFieldLinkState && !told_by_state();
    each.error = !tells                         ? kNotSupported
                 : has_link(handle, each.scope) ? kSuccess
                                                : kInvalidArgument;
    each.type = kValueUnsigned;
    each.value.ui = each.error != kSuccess ? 0xdead : is_up(each.scope) ? 1 : 0;
  });
  return kSuccess;
}

int nvmlDeviceGetP2PStatus(void* handle, void* peer, unsigned capability, unsigned* status) {
  if (!known(handle) || !known(peer) || capability > 4) return kInvalidArgument;
  *status = machine().peers ? 0 : kChipsetNotSupported;
  return kSuccess;
}

#endif
}
#pragma GCC visibility pop
