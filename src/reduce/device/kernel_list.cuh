// SPDX-License-Identifier: Apache-2.0
// Every pass that has a meaning: COLL_REDUCE_KERNEL(op, type, T) for each pair of operation and
// type, and COLL_SCALE_KERNEL(type, T). Who includes this says before what they are; it may be
// included again.
#define COLL_LOGICAL_KERNELS(type, T) \
  COLL_REDUCE_KERNEL(land, type, T)   \
  COLL_REDUCE_KERNEL(lor, type, T)    \
  COLL_REDUCE_KERNEL(lxor, type, T)
#define COLL_BITWISE_KERNELS(type, T) \
  COLL_REDUCE_KERNEL(band, type, T)   \
  COLL_REDUCE_KERNEL(bor, type, T)    \
  COLL_REDUCE_KERNEL(bxor, type, T)
#define COLL_ORDER_KERNELS(type, T) \
  COLL_REDUCE_KERNEL(min, type, T)  \
  COLL_REDUCE_KERNEL(max, type, T)
#define COLL_SUM_KERNELS(type, T)  \
  COLL_REDUCE_KERNEL(sum, type, T) \
  COLL_REDUCE_KERNEL(prod, type, T)
#define COLL_NUMBER_KERNELS(type, T) \
  COLL_SUM_KERNELS(type, T)          \
  COLL_REDUCE_KERNEL(avg, type, T)   \
  COLL_SCALE_KERNEL(type, T)
#define COLL_FLOAT_KERNELS(type, T) \
  COLL_NUMBER_KERNELS(type, T)      \
  COLL_ORDER_KERNELS(type, T)       \
  COLL_LOGICAL_KERNELS(type, T)
#define COLL_INTEGER_KERNELS(type, T) \
  COLL_FLOAT_KERNELS(type, T)         \
  COLL_BITWISE_KERNELS(type, T)

COLL_INTEGER_KERNELS(int8, std::int8_t)
COLL_INTEGER_KERNELS(uint8, std::uint8_t)
COLL_INTEGER_KERNELS(int16, std::int16_t)
COLL_INTEGER_KERNELS(uint16, std::uint16_t)
COLL_INTEGER_KERNELS(int32, std::int32_t)
COLL_INTEGER_KERNELS(uint32, std::uint32_t)
COLL_INTEGER_KERNELS(int64, std::int64_t)
COLL_INTEGER_KERNELS(uint64, std::uint64_t)
COLL_FLOAT_KERNELS(f16, coll::reduce::device::Float16)
COLL_FLOAT_KERNELS(bf16, coll::reduce::device::BFloat16)
COLL_FLOAT_KERNELS(f32, coll::reduce::device::Float32)
COLL_FLOAT_KERNELS(f64, coll::reduce::device::Float64)
COLL_FLOAT_KERNELS(f8e4m3, coll::reduce::device::F8E4M3)
COLL_FLOAT_KERNELS(f8e5m2, coll::reduce::device::F8E5M2)
COLL_SUM_KERNELS(bool, bool)
COLL_ORDER_KERNELS(bool, bool)
COLL_BITWISE_KERNELS(bool, bool)
COLL_LOGICAL_KERNELS(bool, bool)
COLL_NUMBER_KERNELS(complex64, coll::reduce::device::ComplexOf<coll::reduce::device::Float32>)
COLL_NUMBER_KERNELS(complex128, coll::reduce::device::ComplexOf<coll::reduce::device::Float64>)

#undef COLL_LOGICAL_KERNELS
#undef COLL_BITWISE_KERNELS
#undef COLL_ORDER_KERNELS
#undef COLL_SUM_KERNELS
#undef COLL_NUMBER_KERNELS
#undef COLL_FLOAT_KERNELS
#undef COLL_INTEGER_KERNELS
