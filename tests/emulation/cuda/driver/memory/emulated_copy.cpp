// SPDX-License-Identifier: Apache-2.0
// Copies and fills. They touch the memory without any lock: two that meet without an order are a
// data race.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "emulation/cuda/cuda_entry_points.hpp"
#include "emulation/cuda/driver/emulated_calls.hpp"
#include "emulation/cuda/driver/emulated_capture.hpp"
#include "emulation/cuda/driver/emulated_nap.hpp"
#include "emulation/cuda/driver/memory/emulated_memory.hpp"

namespace emucuda {
namespace {

/// A copy of a word is one, behind what the stream did before, as that of a GPU is.
std::atomic_ref<std::uint32_t> word(const void* at) {
  return std::atomic_ref(*static_cast<std::uint32_t*>(const_cast<void*>(at)));
}
bool is_aligned(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % alignof(std::uint32_t) == 0;
}

class Copy final : public Operation {
 public:
  Copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes)
      : to_(reinterpret_cast<void*>(to)),
        from_(reinterpret_cast<const void*>(from)),
        bytes_(bytes) {}
  void run(Stream& stream) override {
    stream.doing(Doing::copy, to_, bytes_);
    if (bytes_ == sizeof(std::uint32_t) && is_aligned(to_) && is_aligned(from_)) {
      const std::uint32_t value = word(from_).load(std::memory_order_acquire);
      word(to_).store(value, std::memory_order_release);
      return wake(to_);
    }
    std::memmove(to_, from_, bytes_);
  }

 private:
  void* const to_;
  const void* const from_;
  const std::size_t bytes_;
};

template <class Unit>
class Fill final : public Operation {
 public:
  Fill(CUdeviceptr to, Unit value, std::size_t count)
      : to_(reinterpret_cast<Unit*>(to)), value_(value), count_(count) {}
  void run(Stream& stream) override {
    stream.doing(Doing::set, to_, count_ * sizeof(Unit));
    if constexpr (sizeof(Unit) == 1) {
      std::memset(to_, value_, count_);
    } else {
      std::fill_n(to_, count_, value_);
    }
  }

 private:
  Unit* const to_;
  const Unit value_;
  const std::size_t count_;
};

enum class Side { any, known };

CUresult copy(CUdeviceptr to, Side to_side, CUdeviceptr from, Side from_side, std::size_t bytes,
              CUstream handle) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!is_range(to, bytes, to_side == Side::known) ||
      !is_range(from, bytes, from_side == Side::known)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return bytes == 0 ? CUDA_SUCCESS : stream->accept(std::make_unique<Copy>(to, from, bytes));
}

CUresult copy_now(CUdeviceptr to, Side to_side, CUdeviceptr from, Side from_side,
                  std::size_t bytes) {
  if (const CUresult refused = refuse(Needs::context)) return refused;
  if (const CUresult refused = refuse_in_capture(nullptr)) return refused;
  const CUresult copied = copy(to, to_side, from, from_side, bytes, nullptr);
  if (copied == CUDA_SUCCESS) stream_of(nullptr)->synchronize();
  return copied;
}

template <class Unit>
CUresult fill(CUdeviceptr to, Unit value, std::size_t count, CUstream handle) {
  if (const CUresult refused = refuse(Needs::driver)) return refused;
  Stream* const stream = stream_of(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (to % sizeof(Unit) != 0 || !is_range(to, count * sizeof(Unit), true))
    return CUDA_ERROR_INVALID_VALUE;
  return count == 0 ? CUDA_SUCCESS : stream->accept(std::make_unique<Fill<Unit>>(to, value, count));
}

}  // namespace

extern "C" {

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy_now(to, Side::any, from, Side::any, bytes);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy_now(to, Side::known, address_of(from), Side::any, bytes);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy_now(address_of(to), Side::any, from, Side::known, bytes);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(to, Side::any, from, Side::any, bytes, stream);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes,
                              CUstream stream) {
  return copy(to, Side::known, address_of(from), Side::any, bytes, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy(address_of(to), Side::any, from, Side::known, bytes, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                              CUstream stream) {
  return copy(to, Side::known, from, Side::known, bytes, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  return fill(to, value, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  return fill(to, value, count, stream);
}

}  // extern "C"
}  // namespace emucuda
