// SPDX-License-Identifier: Apache-2.0
// All memory that the driver knows, and the files that a device's memory lies in.
#include "emulation/cuda/driver/memory/emulated_memory.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "emulation/cuda/driver/emulated_machine.hpp"

namespace emucuda {
namespace {

constexpr char kFileName[] = "emucuda:";  // then the UUID of the device

}  // namespace

Allocations& allocations() {
  static auto& allocations = *new Allocations;
  return allocations;
}

bool Allocations::add(Allocation allocation) {
  const std::lock_guard lock(mutex_);
  const auto next = by_begin_.lower_bound(allocation.begin);
  if (next != by_begin_.end() && next->first < allocation.end()) return false;
  if (next != by_begin_.begin() && std::prev(next)->second.end() > allocation.begin) return false;
  allocation.buffer = ++last_buffer_;
  by_begin_.emplace(allocation.begin, std::move(allocation));
  return true;
}

std::optional<Allocation> Allocations::find(CUdeviceptr address) const {
  const std::shared_lock lock(mutex_);
  const auto after = by_begin_.upper_bound(address);
  if (after == by_begin_.begin() || std::prev(after)->second.end() <= address) return {};
  return std::prev(after)->second;
}

std::optional<Allocation> Allocations::take(CUdeviceptr begin, Kind kind) {
  const std::lock_guard lock(mutex_);
  const auto found = by_begin_.find(begin);
  if (found == by_begin_.end() || found->second.kind != kind) return {};
  std::optional<Allocation> taken = std::move(found->second);
  by_begin_.erase(found);
  return taken;
}

void Allocations::let_reach(CUdeviceptr begin, int device) {
  const std::lock_guard lock(mutex_);
  by_begin_.at(begin).reached_by.insert(device);
}

bool Allocations::use(int device, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::size_t& used = used_[device];
  if (bytes > machine().memory - used) return false;
  used += bytes;
  return true;
}

void Allocations::unuse(int device, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  used_[device] -= bytes;
}

std::size_t Allocations::used(int device) const {
  const std::shared_lock lock(mutex_);
  const auto found = used_.find(device);
  return found == used_.end() ? 0 : found->second;
}

bool device_reaches(Context& context, CUdeviceptr address, std::size_t bytes) {
  const std::optional<Allocation> found = allocations().find(address);
  if (!found || found->end() - address < bytes) return false;
  if (found->of_host() || found->kind == Kind::managed) return true;
  if (found->kind == Kind::mapped) return found->reached_by.count(context.device) > 0;
  return context.reaches(found->device);
}

bool is_range(CUdeviceptr address, std::size_t bytes, bool known) {
  for (bool first = true; first || bytes > 0; first = false) {
    const std::optional<Allocation> found = allocations().find(address);
    if (!found) return first && !known;
    if (found->kind == Kind::mapped && found->reached_by.empty()) return false;
    const std::size_t here = std::min<std::size_t>(bytes, found->end() - address);
    // Only what cuMemMap has put side by side is one range.
    if (here < bytes && found->kind != Kind::mapped) return false;
    address += here;
    bytes -= here;
  }
  return true;
}

int new_memory_file(int device, std::size_t bytes) {
  std::string name = kFileName;
  for (const unsigned char byte : uuid_of(device)) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    name += digits;
  }
  const int descriptor = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (descriptor < 0) return -1;
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) return descriptor;
  close(descriptor);
  return -1;
}

std::optional<MemoryFile> memory_file(int descriptor) {
  char link[200] = {};
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  struct stat status {};
  if (readlink(path.c_str(), link, sizeof link - 1) < 0 || fstat(descriptor, &status) != 0)
    return {};
  const char* const name = std::strstr(link, kFileName);
  std::array<unsigned char, 16> uuid{};
  if (name == nullptr || std::strlen(name) < sizeof kFileName - 1 + 2 * uuid.size()) return {};
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    const std::string digits(name + sizeof kFileName - 1 + 2 * i, 2);
    uuid[i] = static_cast<unsigned char>(std::strtoul(digits.c_str(), nullptr, 16));
  }
  return MemoryFile{device_of(uuid), status.st_ino, static_cast<std::size_t>(status.st_size)};
}

void* map_memory_file(int descriptor, std::size_t bytes) {
  // A place that is long enough to have a multiple of kPage in it, then all but the file's part of
  // it goes back.
  const std::size_t room = bytes + kPage;
  void* const place =
      mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<char*>(place);
  auto* const data = begin + (kPage - reinterpret_cast<std::uintptr_t>(begin) % kPage) % kPage;
  if (data != begin) munmap(begin, static_cast<std::size_t>(data - begin));
  const auto behind = static_cast<std::size_t>(begin + room - (data + bytes));
  if (behind > 0) munmap(data + bytes, behind);
  if (mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0) ==
      MAP_FAILED) {
    munmap(data, bytes);
    return nullptr;
  }
  return data;
}

}  // namespace emucuda
