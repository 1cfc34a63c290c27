// SPDX-License-Identifier: Apache-2.0
// What tests tell the emulated CUDA driver, whose functions they find by dlsym.
#pragma once
#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {
/// From now on the driver says that [begin, begin + bytes) is memory of `device`; `managed`: memory
/// that processors reach too.
void emulated_cuda_claim(const void* begin, std::size_t bytes, int device, int managed);
/// Takes the claim at `begin` back.
void emulated_cuda_unclaim(const void* begin);
}
#pragma GCC visibility pop
