// SPDX-License-Identifier: Apache-2.0
// All memory that the driver knows: of devices, of the host where it is registered, and of other
// processes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <shared_mutex>

#include "emulation/cuda/cuda_abi.hpp"
#include "emulation/cuda/driver/emulated_context.hpp"

namespace emucuda {

inline CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

enum class Kind { device, managed, host, registered, imported, mapped };

struct Allocation {
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  Kind kind = Kind::device;
  int device = 0;
  int descriptor = -1;         // of a device's memory that the driver made
  std::size_t mapping = 0;     // bytes of the mapping
  std::uint64_t buffer = 0;    // never that of another allocation
  std::set<int> reached_by{};  // Kind::mapped: devices that cuMemSetAccess named
  bool exportable = false;     // Kind::mapped: as a file descriptor

  [[nodiscard]] CUdeviceptr end() const { return begin + bytes; }
  [[nodiscard]] bool of_host() const { return kind == Kind::host || kind == Kind::registered; }
};

/// All allocations of the process, by address. Only the host's threads use it.
class Allocations {
 public:
  /// Sets the allocation's `buffer`. False: it would overlap another.
  bool add(Allocation allocation);
  /// The one that the address lies in.
  [[nodiscard]] std::optional<Allocation> find(CUdeviceptr address) const;
  /// Removes the one that begins there, if it is of the kind.
  std::optional<Allocation> take(CUdeviceptr begin, Kind kind);
  void let_reach(CUdeviceptr begin, int device);
  /// Counts so many bytes more as used on a device. False: there are not so many.
  bool use(int device, std::size_t bytes);
  void unuse(int device, std::size_t bytes);
  [[nodiscard]] std::size_t used(int device) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<CUdeviceptr, Allocation> by_begin_;
  std::map<int, std::size_t> used_;
  std::uint64_t last_buffer_ = 0;
};

Allocations& allocations();

/// The bytes are memory of the driver's, and streams of the context may use it as words and in
/// kernels.
bool device_reaches(Context& context, CUdeviceptr address, std::size_t bytes);
/// The bytes may be copied: none is beyond the end of an allocation that the driver knows. `known`:
/// it must know it.
bool is_range(CUdeviceptr address, std::size_t bytes, bool known);

constexpr std::size_t kPage = 64 << 10;  // a device's smallest
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// A descriptor of zeroed memory that says of which device it is; -1: the system refuses.
int new_memory_file(int device, std::size_t bytes);
/// The device and the number of a descriptor that `new_memory_file` made, in this process or
/// another.
struct MemoryFile {
  int device;
  std::uint64_t number;
  std::size_t bytes;
};
std::optional<MemoryFile> memory_file(int descriptor);
/// Maps a descriptor at a multiple of kPage; null: the system refuses.
void* map_memory_file(int descriptor, std::size_t bytes);

}  // namespace emucuda
