// SPDX-License-Identifier: Apache-2.0
// The GPU that this rank uses, and memory there.
#pragma once
#include <cstddef>
#include <string>

#include "gpu/gpu_driver.hpp"

namespace perf {

/// The rank among those of its host, as some launcher's variable says it; `otherwise` if none does.
int local_rank_or(int otherwise);

/// In its primary context, as frameworks use a GPU; the thread that makes it is the one that calls.
/// Failures end the program: exit code 2 and what was tried on standard error.
class Gpu {
 public:
  /// CUDA's device `number`; -1: the one of this local rank, counted round and round.
  Gpu(const char* program, int number, int local_rank);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  [[nodiscard]] const GpuDriver& driver() const { return *driver_; }
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& bus() const { return bus_; }  ///< "0000:17:00.0"
  [[nodiscard]] const GpuUuid& uuid() const { return uuid_; }
  /// What the driver can at most: 13000 for CUDA 13.0.
  [[nodiscard]] int cuda_version() const { return cuda_version_; }
  [[nodiscard]] std::size_t free_bytes() const;

  /// `what` says what was asked for, for a person.
  void require(int error, const std::string& what) const;

 private:
  [[noreturn]] void give_up(const std::string& why) const;

  const char* program_;
  const GpuDriver* driver_ = nullptr;
  int number_;
  int device_ = 0;
  int cuda_version_ = 0;
  std::string name_, bus_;
  GpuUuid uuid_{};
};

/// Memory of the GPU; its content is anything.
class GpuMemory {
 public:
  GpuMemory(const Gpu& gpu, std::size_t bytes);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  [[nodiscard]] GpuAddress address() const { return address_; }
  void write(const void* from, std::size_t bytes);  ///< from its start on
  void read(void* to, std::size_t bytes) const;

 private:
  const Gpu& gpu_;
  GpuAddress address_ = 0;
};

/// Memory of the host that the GPU copies from and to without help.
class GpuHostMemory {
 public:
  GpuHostMemory(const Gpu& gpu, std::size_t bytes);
  ~GpuHostMemory();
  GpuHostMemory(const GpuHostMemory&) = delete;
  GpuHostMemory& operator=(const GpuHostMemory&) = delete;

  [[nodiscard]] void* at() const { return memory_; }

 private:
  const Gpu& gpu_;
  void* memory_ = nullptr;
};

/// A stream, behind what the default stream does unless it is told not to be.
class GpuQueue {
 public:
  explicit GpuQueue(const Gpu& gpu, bool behind_default = true);
  ~GpuQueue();
  GpuQueue(const GpuQueue&) = delete;
  GpuQueue& operator=(const GpuQueue&) = delete;

  [[nodiscard]] GpuStream handle() const { return stream_; }
  void synchronize() const;

 private:
  const Gpu& gpu_;
  GpuStream stream_ = nullptr;
};

}  // namespace perf
