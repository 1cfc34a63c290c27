// SPDX-License-Identifier: Apache-2.0
// The buffers that are measured: touched 4 KiB pages, as in the peers' benchmark, and a guard
// behind the end.
#pragma once
#include <cstddef>
#include <cstdint>

#include "coll_perf/coll_perf_options.hpp"

namespace perf {

class Buffer {
 public:
  /// Ends the program when there is no memory.
  Buffer(std::size_t bytes, Memory memory);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] unsigned char* data() const { return data_; }

  /// Marks what lies behind the first `used` bytes, so that a write beyond them is seen.
  void guard(std::size_t used);
  /// Bytes of the mark that have changed.
  [[nodiscard]] std::uint64_t broken(std::size_t used) const;

 private:
  Memory memory_;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  unsigned char* data_;
};

/// The buffers of one call.
struct Buffers {
  Buffers(std::size_t bytes, Memory memory) : input(bytes, memory), output(bytes, memory) {}
  Buffer input, output;
};

}  // namespace perf
