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

/// Memory of a device: a processor that touches it ends the process (SIGSEGV). `context`: 0, the
/// device's primary one, or another.
void* emulated_cuda_alloc(std::size_t bytes, int device, int context);
/// The same in place of what is mapped at `there`.
void* emulated_cuda_alloc_at(void* there, std::size_t bytes, int device);
void emulated_cuda_free(void* memory);
/// Its content, for the test.
std::byte* emulated_cuda_content(void* memory);

/// After so many more copies all fail, with CUDA_ERROR_ILLEGAL_ADDRESS; negative: none does.
void emulated_cuda_fail_after(int copies);
/// What was asked of the driver so far.
struct EmulatedCudaCounts {
  std::size_t copies, copied_bytes;  ///< that were waited for
  std::size_t pinned, pinned_bytes;  ///< now
  std::size_t registrations;         ///< ever
};
EmulatedCudaCounts emulated_cuda_counts();
}
#pragma GCC visibility pop
