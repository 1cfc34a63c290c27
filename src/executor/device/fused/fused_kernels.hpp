// SPDX-License-Identifier: Apache-2.0
// The fused kernel as this library carries it.
#pragma once
#include <cstddef>
#include <span>

namespace coll {

/// The image for the driver, which has the kernel of that name; empty if the build had no nvcc.
std::span<const std::byte> fused_kernels();
inline constexpr char kFusedKernel[] = "coll_fused";

}  // namespace coll
