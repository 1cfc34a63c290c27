// SPDX-License-Identifier: Apache-2.0
// Words by which kernels talk with other devices and the host, and how they wait for them.
//
// Who includes this has __syncthreads, __syncthreads_or, and COLL_PAUSE(): what a thread does
// between two looks. nvcc's are the device's own (fused_kernels.cu); the host's let other threads
// run.
#pragma once
#include <cstdint>
#if !defined(__CUDACC__)
#include <atomic>
#endif

namespace coll::fused {

template <class T>
__device__ T* at(std::uint64_t address) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

#if defined(__CUDACC__)
// Who reads what another device or the host wrote. Volatile accesses are relaxed ones of the
// system.
__device__ inline std::uint32_t load_relaxed(const std::uint32_t* word) {
  return *static_cast<const volatile std::uint32_t*>(word);
}
__device__ inline void store_relaxed(std::uint32_t* word, std::uint32_t value) {
  *static_cast<volatile std::uint32_t*>(word) = value;
}
__device__ inline std::uint32_t load_acquire(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline void store_release(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}
/// Behind what this block has read, which a barrier has shown to be there: nothing has to be waited
/// for, as for what it wrote.
__device__ inline void store_after_reads(std::uint32_t* word, std::uint32_t value) {
  store_relaxed(word, value);
}
/// Behind what this block has read, which a barrier has shown to be there.
__device__ inline std::uint32_t load_after_reads(std::uint32_t* word) {
  asm volatile("fence.acq_rel.sys;" : : : "memory");
  return load_relaxed(word);
}
// Within this device.
__device__ inline std::uint64_t load_acquire(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline void store_release(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}
__device__ inline std::uint32_t add(std::uint32_t* word, std::uint32_t value) {
  std::uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(word), "r"(value)
               : "memory");
  return before;
}
#else
inline std::uint32_t load_relaxed(const std::uint32_t* word) {
  return std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_relaxed);
}
inline void store_relaxed(std::uint32_t* word, std::uint32_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_relaxed);
}
template <class Word>
Word load_acquire(const Word* word) {
  return std::atomic_ref(*const_cast<Word*>(word)).load(std::memory_order_acquire);
}
template <class Word>
void store_release(Word* word, Word value) {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}
inline void store_after_reads(std::uint32_t* word, std::uint32_t value) {
  store_release(word, value);  // the thread sanitizer knows nothing weaker
}
inline std::uint32_t load_after_reads(std::uint32_t* word) {
  // A load alone could come before the reads. Until it is noted that the share was read, its owner
  // changes the word only to withdraw.
  return std::atomic_ref(*word).fetch_add(0, std::memory_order_acq_rel);
}
/// A function of its own: of `x += fetch_add(x)` GCC 12 makes code that gives twice what was
/// before, since it puts that in the register of x.
[[gnu::noinline]] inline std::uint32_t add(std::uint32_t* word, std::uint32_t value) {
  return std::atomic_ref(*word).fetch_add(value, std::memory_order_acq_rel);
}
#endif

/// Looks until `ready()`; false: the host has given up. Every wait is one of this, so none is for
/// ever. The host's word is far away, so it is looked at seldom.
template <class Ready>
__device__ bool spin_until(std::uint64_t abort, Ready ready) {
  for (std::uint32_t vain = 1; !ready(); ++vain) {
    COLL_PAUSE();
    if (vain % COLL_LOOKS_IN_VAIN == 0 && load_relaxed(at<const std::uint32_t>(abort)) != 0)
      return false;
  }
  return true;
}

/// Not 0: the host had given up before the kernel began, and the caller's buffers are not the
/// call's any more. Asked early and looked at late, as the word is far away; one thread asks.
__device__ inline std::uint32_t ask_for_abort(std::uint64_t abort) {
  return threadIdx.x == 0 ? load_relaxed(at<const std::uint32_t>(abort)) : 0;
}

/// Has the word reached the number of a message? Numbers go round.
__device__ inline bool has_reached(std::uint64_t word, std::uint32_t number) {
  return static_cast<std::int32_t>(load_acquire(at<const std::uint32_t>(word)) - number) >= 0;
}
__device__ inline bool await_number(std::uint64_t abort, std::uint64_t word, std::uint32_t number) {
  return spin_until(abort, [=] { return has_reached(word, number); });
}

}  // namespace coll::fused
