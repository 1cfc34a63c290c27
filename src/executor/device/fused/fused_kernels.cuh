// SPDX-License-Identifier: Apache-2.0
// The fused kernel: one launch is one run of a program. It is one for all, since each kernel has
// its own copy of all functions for elements that it calls.
//
// Who includes this says what a kernel is: COLL_FUSED_KERNEL(name, Arguments, Shared, body), whose
// threads wait for one another, and for those of other kernels; and what spinning.cuh asks for.
#pragma once
#include "executor/device/fused/fused_one_shot.cuh"

namespace coll::fused {

union KernelShared {
  FusedShared program;
  OneShotShared one_shot;
};

__device__ inline void run_fused(const FusedArguments& a, KernelShared& shared) {
  if (a.lanes == 0) return;  // it was launched to be loaded
  end_block(a, a.one_shot != 0 ? OneShot(a, shared.one_shot).run()
                               : Interpreter(a, shared.program).run());
}

}  // namespace coll::fused

COLL_FUSED_KERNEL(coll_fused, coll::fused::FusedArguments, coll::fused::KernelShared,
                  coll::fused::run_fused)
