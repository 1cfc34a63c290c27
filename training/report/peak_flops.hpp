// SPDX-License-Identifier: Apache-2.0
// The most that this rank can compute: what MFU is measured against.
#pragma once

namespace training {

/// FLOP/s of the fastest square product of matrices, in f32, of what fits about `seconds`: 2 n^3
/// for n from 128, doubled while one product fits half of the time. Ranks that share cores call
/// this at one time, after a barrier: the sum is then what they reach together.
double peak_flops(double seconds = 0.05);

}  // namespace training
