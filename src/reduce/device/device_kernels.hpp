// SPDX-License-Identifier: Apache-2.0
// The kernels of the device as this library carries them, and their names.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/types.hpp"

namespace coll::reduce {

/// The image for the driver (a fatbin): machine code for the architectures of this build, and PTX
/// for the others. Empty if the build had no nvcc.
std::span<const std::byte> device_kernels();

/// The kernel of one pass, which takes ReduceArguments; the pair has a meaning. `finish`: the last
/// pass of a call; that of avg also divides, its other passes only add.
std::string device_kernel(ReduceOp op, DataType type, bool finish);

/// The kernel that multiplies by a factor, which takes ScaleArguments; not for bool.
std::string device_scale_kernel(DataType type);

}  // namespace coll::reduce
