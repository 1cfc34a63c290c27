// SPDX-License-Identifier: Apache-2.0
// Every kernel of the device: coll_OP_TYPE for the pairs that have a meaning, and coll_scale_TYPE.
//
// Who includes this says what a kernel is: COLL_KERNEL(name, Arguments, body) for nvcc
// (device_kernels.cu), and for the host where tests run the same source as C++.
#pragma once
#include "reduce/device/element_loop.cuh"

#define COLL_REDUCE_KERNEL(op, type, T)                          \
  COLL_KERNEL(coll_##op##_##type, coll::reduce::ReduceArguments, \
              (coll::reduce::device::reduce_elements<coll::ReduceOp::op, T>))
#define COLL_SCALE_KERNEL(type, T)                             \
  COLL_KERNEL(coll_scale_##type, coll::reduce::ScaleArguments, \
              (coll::reduce::device::scale_elements<T>))

#include "reduce/device/kernel_list.cuh"
#undef COLL_REDUCE_KERNEL
#undef COLL_SCALE_KERNEL
