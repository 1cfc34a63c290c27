// SPDX-License-Identifier: Apache-2.0
// What the environment says of the emulated GPUs. README.md lists the variables.
#pragma once
#include <array>
#include <cstddef>
#include <string>

namespace emucuda {

struct Machine {
  int devices;
  std::string name;
  std::array<unsigned char, 16> uuid;  // of device 0; the last byte counts devices
  int major, minor;                    // compute capability
  int pci_bus;                         // of device 0; each device has a bus of its own
  std::size_t memory;                  // bytes of a device
  bool ipc;                            // a process opens memory of another
  bool peers;                          // one device reaches the memory of another
  bool dma_bufs;                       // other devices reach a device's memory
  bool allocating_waits;               // for all streams, like freeing
  double watchdog_s;
  double lag_us;        // by which calls that give a stream work return late
  std::string kernels;  // the file of the kernels' twins
};

/// Read once.
const Machine& machine();
std::array<unsigned char, 16> uuid_of(int device);
/// -1: none here.
int device_of(const std::array<unsigned char, 16>& uuid);

}  // namespace emucuda
