// SPDX-License-Identifier: Apache-2.0
// The buffers that are measured, and a guard behind the end of each: touched 4 KiB pages, as in the
// peers' benchmark, or memory of a GPU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "coll_perf/coll_perf_options.hpp"
#include "gpu/gpu_device.hpp"

namespace perf {

class Buffer {
 public:
  /// In memory of `gpu`, unless that is null. Ends the program when there is no memory.
  Buffer(std::size_t bytes, Memory memory, const Gpu* gpu = nullptr);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// What calls are given. Only a byte of the host may be touched there.
  [[nodiscard]] unsigned char* data() const { return data_; }
  /// The same bytes for this program: of a GPU's buffer a copy in the host's memory.
  [[nodiscard]] unsigned char* host() const { return host_; }
  /// Moves the first `used` bytes of host() with the guard to where calls find them, and back.
  void push(std::size_t used);
  void pull(std::size_t used);

  /// Marks what lies behind the first `used` bytes, so that a write beyond them is seen.
  void guard(std::size_t used);
  /// Bytes of the mark that have changed.
  [[nodiscard]] std::uint64_t broken(std::size_t used) const;

 private:
  Memory memory_;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  unsigned char* host_;
  unsigned char* data_;
  std::unique_ptr<GpuMemory> gpu_;
};

/// The buffers of one call.
struct Buffers {
  Buffers(std::size_t bytes, Memory memory, const Gpu* gpu = nullptr)
      : input(bytes, memory, gpu), output(bytes, memory, gpu) {}
  Buffer input, output;
};

}  // namespace perf
