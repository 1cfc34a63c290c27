// SPDX-License-Identifier: Apache-2.0
// What the environment says of the emulated GPUs.
#include "emulation/cuda/driver/emulated_machine.hpp"

#include <cstdio>
#include <cstdlib>

namespace emucuda {
namespace {

std::string text(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

double number(const char* name, double otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::strtod(value, nullptr) : otherwise;
}

Machine read() {
  Machine read{};
  read.devices = static_cast<int>(number("EMUCUDA_DEVICES", 1));
  read.name = text("EMUCUDA_NAME", "Emulated GPU");
  const std::string uuid = text("EMUCUDA_UUID", "456d756c617465642d4750552d000000");
  for (std::size_t i = 0; i < read.uuid.size() && 2 * i + 2 <= uuid.size(); ++i) {
    const std::string byte = uuid.substr(2 * i, 2);
    read.uuid[i] = static_cast<unsigned char>(std::strtoul(byte.c_str(), nullptr, 16));
  }
  if (std::sscanf(text("EMUCUDA_COMPUTE", "9.0").c_str(), "%d.%d", &read.major, &read.minor) != 2) {
    read.major = 9;
  }
  read.pci_bus = static_cast<int>(number("EMUCUDA_PCI_BUS", 0x17));
  read.memory = static_cast<std::size_t>(number("EMUCUDA_MEMORY", 16.0 * (1U << 30U)));
  read.ipc = number("EMUCUDA_IPC", 1) != 0;
  read.peers = number("EMUCUDA_PEERS", 1) != 0;
  read.dma_bufs = number("EMUCUDA_DMA_BUFS", 1) != 0;
  read.allocating_waits = number("EMUCUDA_ALLOCATING_WAITS", 0) != 0;
  read.watchdog_s = number("EMUCUDA_WATCHDOG_S", 60);
  read.lag_us = number("EMUCUDA_LAG_US", 0);
  read.kernels = text("EMUCUDA_KERNELS", "");
  return read;
}

}  // namespace

const Machine& machine() {
  static const Machine* const machine = new Machine(read());  // threads outlive the end of main
  return *machine;
}

std::array<unsigned char, 16> uuid_of(int device) {
  auto uuid = machine().uuid;
  uuid[15] = static_cast<unsigned char>(uuid[15] + device);
  return uuid;
}

int device_of(const std::array<unsigned char, 16>& uuid) {
  for (int device = 0; device < machine().devices; ++device) {
    if (uuid_of(device) == uuid) return device;
  }
  return -1;
}

}  // namespace emucuda
