// SPDX-License-Identifier: Apache-2.0
// Copies and combinations by the threads of one block: the element functions of src/reduce/device.
#pragma once
#include "executor/device/fused/spinning.cuh"
#include "reduce/device/element_loop.cuh"

namespace coll::fused {

using reduce::ReduceArguments;
using reduce::device::Team;

/// Vectors that a thread has on their way. Elements of a byte make much code of each vector.
template <class T>
inline constexpr unsigned kBatchOf = sizeof(T) == 1 ? 1 : 4;

__device__ inline Team whole_block() {
  return {threadIdx.x, blockDim.x};
}

/// One pass. Not inlined: the kernel has each once.
template <ReduceOp op, class T>
COLL_CALLED __device__ void combine_by_block(const ReduceArguments& a) {
  using Element = typename reduce::device::ElementStep<op, T>::Element;
  reduce::device::reduce_by_team<op, T, kBatchOf<Element>>(a, whole_block());
}

// The types by the names that their kernels have.
inline constexpr DataType kType_int8 = DataType::int8, kType_uint8 = DataType::uint8,
                          kType_int16 = DataType::int16, kType_uint16 = DataType::uint16,
                          kType_int32 = DataType::int32, kType_uint32 = DataType::uint32,
                          kType_int64 = DataType::int64, kType_uint64 = DataType::uint64,
                          kType_f16 = DataType::float16, kType_bf16 = DataType::bfloat16,
                          kType_f32 = DataType::float32, kType_f64 = DataType::float64,
                          kType_f8e4m3 = DataType::float8_e4m3,
                          kType_f8e5m2 = DataType::float8_e5m2, kType_bool = DataType::boolean,
                          kType_complex64 = DataType::complex64,
                          kType_complex128 = DataType::complex128;

constexpr std::uint32_t pass_number(ReduceOp op, DataType type) {
  return static_cast<std::uint32_t>(op) * kDataTypes + static_cast<std::uint32_t>(type);
}
#define COLL_REDUCE_KERNEL(op, type, T) \
  inline constexpr std::uint32_t kPass_##op##_##type = pass_number(ReduceOp::op, kType_##type);
#define COLL_SCALE_KERNEL(type, T)
#include "reduce/device/kernel_list.cuh"
#undef COLL_REDUCE_KERNEL

/// The pass of a call with this operation; the last pass of avg also divides, its others only add.
COLL_CALLED __device__ inline void combine(std::uint32_t op, std::uint32_t type, bool finish,
                                           const ReduceArguments& a) {
  constexpr auto kAvg = static_cast<std::uint32_t>(ReduceOp::avg);
  constexpr auto kSum = static_cast<std::uint32_t>(ReduceOp::sum);
  const std::uint32_t pass = op == kAvg && !finish ? kSum : op;
#define COLL_REDUCE_KERNEL(op, type, T) \
  case kPass_##op##_##type:             \
    return combine_by_block<ReduceOp::op, T>(a);
  switch (pass * kDataTypes + type) {
#include "reduce/device/kernel_list.cuh"
    default:
      return;
  }
#undef COLL_REDUCE_KERNEL
#undef COLL_SCALE_KERNEL
}

template <class Element>
__device__ void copy_elements(unsigned char* to, unsigned char* also, const unsigned char* from,
                              std::uint64_t bytes) {
  constexpr unsigned kBatch = 4;
  reduce::device::for_each_element<Element, kBatch>({to, also, from, nullptr},
                                                    bytes / sizeof(Element), whole_block(),
                                                    [](Element x) { return x; });
}
/// By the widest elements that all places are aligned to; `also` may be null.
COLL_CALLED __device__ inline void copy_by_block(unsigned char* to, unsigned char* also,
                                                 const unsigned char* from, std::uint64_t bytes) {
  const auto address = [](const unsigned char* place) {
    return reinterpret_cast<std::uintptr_t>(place);
  };
  const std::uint64_t grain = address(to) | address(also) | address(from) | bytes;
  if (grain % 8 == 0) return copy_elements<std::uint64_t>(to, also, from, bytes);
  if (grain % 4 == 0) return copy_elements<std::uint32_t>(to, also, from, bytes);
  if (grain % 2 == 0) return copy_elements<std::uint16_t>(to, also, from, bytes);
  copy_elements<std::uint8_t>(to, also, from, bytes);
}

}  // namespace coll::fused
