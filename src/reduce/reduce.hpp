// SPDX-License-Identifier: Apache-2.0
// Reduction kernels by operation and type: what the executor calls.
//
// The bits of a result depend on the operands and on nothing else: not on the instruction set, the
// machine, the alignment, the position in the buffer, nor on which operand comes first.
//   - f32, f64: IEEE 754, one rounding for the operation and one more for avg's division; no fused
//     multiply-add, no reciprocals. Denormals are kept.
//   - f16, bf16: the same in f32, then one rounding (to nearest, ties to even) to 16 bits per pass.
//   - f8e4m3, f8e5m2: as those, to 8 bits. E4M3 has no infinity and saturates at 448.
//   - NaN: an operand that is NaN makes the result NaN in every operation but the logical ones. min
//     and max are minimum and maximum of IEEE 754-2019, where -0 is below +0. Every NaN that is
//     computed is the one positive quiet NaN without payload (f8e4m3 0x7f, f8e5m2 0x7e, f16 0x7e00,
//     bf16 0x7fc0, f32 0x7fc00000, f64 0x7ff8000000000000).
//   - integers: sum, prod and avg's sum wrap; avg's quotient is truncated toward zero.
//   - complex64, complex128: sum and avg part by part. prod is (ac - bd) + (ad + bc)i; each product
//     and each sum is rounded. Each part of a product is NaN by itself.
//   - logical operations, and all of bool: 0 or 1. What is no zero is true, NaN too.
// All of it holds while the CPU rounds to nearest and keeps denormals, as every process starts; a
// program that sets flush-to-zero (-ffast-math does at start-up) gets other bits for denormals.
#pragma once
#include <cstddef>
#include <string_view>

#include "base/types.hpp"

namespace coll::reduce {

/// How results go to memory: through the caches, or past them (for results larger than the last
/// cache).
enum class Store : unsigned char { cached, streaming };

/// One fused pass over `count` elements: out = a op b. Nothing needs alignment. `out` may be `a` or
/// `b` exactly, but may not overlap them otherwise. `ranks` is read by the finishing forms only.
using Combine = void (*)(void* out, const void* a, const void* b, std::size_t count,
                         std::size_t ranks);
/// The same with a second sink: both outs get a op b from one read of a and b. `out2` may be `a` or
/// `b` as well, if `out` is not the same.
using CombineBoth = void (*)(void* out, void* out2, const void* a, const void* b, std::size_t count,
                             std::size_t ranks);

/// The passes of one (op, dtype), resolved once per call.
/// `finish` is combine followed by the operation's end: avg divides by `ranks` (floats of 8 and 16
/// bits in f32, with one rounding for the whole pass); for every other op it is `combine` itself.
struct Kernels {
  Combine combine[2];           ///< indexed by Store
  CombineBoth combine_both[2];  ///< by the Store of `out2`; `out` always goes past the caches
  Combine finish[2];
  CombineBoth finish_both[2];
};

/// The passes of a pair for which has_meaning() holds. Other pairs have none: their pointers are
/// null.
const Kernels& kernels(ReduceOp op, DataType type);

/// Plain copies, indexed by Store.
using Copy = void (*)(void* out, const void* in, std::size_t bytes);
struct CopyKernels {
  Copy copy[2];
};
const CopyKernels& copy_kernels();

/// The instruction set chosen once at start: "avx512fp16", "avx512", "avx2", "neonfp16", "neon",
/// "baseline".
/// The knob COLL_ISA asks for a lower one; one that this CPU lacks falls to the best it has.
std::string_view instruction_set();

}  // namespace coll::reduce
