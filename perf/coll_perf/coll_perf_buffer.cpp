// SPDX-License-Identifier: Apache-2.0
// Buffers mapped page by page, as the memory kind asks.
#include "coll_perf/coll_perf_buffer.hpp"

#include <collectives/collectives.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "process_end.hpp"

namespace perf {
namespace {
constexpr std::size_t kAlign = std::size_t{2} << 20;  // no huge page can straddle two buffers
constexpr std::size_t kGuard = 64;
constexpr unsigned char kMark = 0xa5;
}  // namespace

Buffer::Buffer(std::size_t bytes, Memory memory, const Gpu* gpu) : memory_(memory) {
  const std::size_t whole = (bytes + kGuard + kAlign) / kAlign * kAlign;
  const auto give_up = [&](const char* why) {
    end_process(
        fmt::format("coll-perf: no memory for a buffer of {} bytes: {}; a smaller -e needs less\n",
                    bytes, why));
  };
  if (memory == Memory::allocated) {
    if (coll_mem_alloc(&mapping_, whole) != COLL_SUCCESS) give_up(coll_last_error());
    host_ = static_cast<unsigned char*>(mapping_);
  } else {
    mapped_ = whole + kAlign;
    int file = -1;
    if (memory == Memory::registered && gpu == nullptr) {
      file = memfd_create("coll-perf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
      if (file < 0 || ftruncate(file, static_cast<off_t>(mapped_)) != 0)
        give_up(std::strerror(errno));
    }
    mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                    file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
    if (mapping_ == MAP_FAILED) give_up(std::strerror(errno));
    const auto start = reinterpret_cast<std::uintptr_t>(mapping_);
    const std::size_t skip = (kAlign - start % kAlign) % kAlign;
    host_ = static_cast<unsigned char*>(mapping_) + skip;
    if (file >= 0) {
      if (coll_mem_register(host_, whole) != COLL_SUCCESS) give_up(coll_last_error());
      close(file);
    }
  }
  data_ = host_;
  if (gpu != nullptr) {
    gpu_ = std::make_unique<GpuMemory>(*gpu, bytes + kGuard);
    data_ = reinterpret_cast<unsigned char*>(gpu_->address());
    if (memory == Memory::registered && coll_mem_register(data_, bytes + kGuard) != COLL_SUCCESS)
      give_up(coll_last_error());
  } else {
    madvise(host_, whole, MADV_NOHUGEPAGE);
    std::memset(host_, 0, whole);
  }
}

Buffer::~Buffer() {
  if (memory_ == Memory::allocated) {
    coll_mem_free(mapping_);
  } else {
    if (memory_ == Memory::registered && coll_mem_deregister(data_) != COLL_SUCCESS) {
      // A peer that has not left yet has it open. It ends with the process.
      static_cast<void>(gpu_.release());
    }
    munmap(mapping_, mapped_);
  }
}

void Buffer::push(std::size_t used) {
  if (gpu_) gpu_->write(host_, used + kGuard);
}

void Buffer::pull(std::size_t used) {
  if (gpu_) gpu_->read(host_, used + kGuard);
}

void Buffer::guard(std::size_t used) {
  std::memset(host_ + used, kMark, kGuard);
}

std::uint64_t Buffer::broken(std::size_t used) const {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < kGuard; ++i) count += host_[used + i] != kMark ? 1 : 0;
  return count;
}

}  // namespace perf
