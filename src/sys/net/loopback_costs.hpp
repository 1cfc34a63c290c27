// SPDX-License-Identifier: Apache-2.0
// What a TCP message costs within this kernel, measured.
#pragma once

namespace coll {

/// Microseconds of a short send over loopback, which does all the work up to the receiver's socket;
/// 0 where there is no loopback. Measured in this process when first asked for, in 0.2 ms; the same
/// ever after.
double loopback_send_us();

}  // namespace coll
