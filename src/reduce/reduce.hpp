// SPDX-License-Identifier: Apache-2.0
// reduce/: the [op][dtype] kernels. This file: what the executor calls.
#pragma once
#include <cstddef>

#include "base/types.hpp"

namespace coll::reduce {

/// How results go to memory: through the caches, or past them (for results larger than the last
/// cache).
enum class Store : unsigned char { cached, streaming };

/// One fused pass over `count` elements: out = a op b. Nothing needs alignment. `out` may be `a` or
/// `b` exactly, but may not overlap them otherwise. `ranks` is read by the finishing forms only.
using Combine = void (*)(void* out, const void* a, const void* b, std::size_t count,
                         std::size_t ranks);
/// The same with a second sink: both outs get a op b from one read of a and b.
using CombineBoth = void (*)(void* out, void* out2, const void* a, const void* b, std::size_t count,
                             std::size_t ranks);

/// The passes of one (op, dtype), resolved once per call.
/// `finish` is combine followed by the operation's end: avg divides by `ranks` (f16 and bf16 in
/// f32, with one rounding for the whole pass); for every other op it is `combine` itself.
struct Kernels {
  Combine combine[2];  ///< indexed by Store
  CombineBoth
      combine_both[2];  ///< Store applies to `out`; `out2`, a connection's slot, stays cached
  Combine finish[2];
  CombineBoth finish_both[2];
};

/// Never fails: the matrix has no holes. `op` and `type` must be valid.
const Kernels& kernels(ReduceOp op, DataType type);

/// Plain copies with the same choices; `copy_both` writes both from one read.
using Copy = void (*)(void* out, const void* in, std::size_t bytes);
using CopyBoth = void (*)(void* out, void* out2, const void* in, std::size_t bytes);
struct CopyKernels {
  Copy copy[2];
  CopyBoth copy_both[2];
};
const CopyKernels& copy_kernels();

/// The instruction set chosen once at start: "avx512", "avx2", "neon", "baseline".
/// The knob COLL_ISA asks for a lower one; one that this CPU lacks falls to the best it has.
std::string_view instruction_set();

}  // namespace coll::reduce
