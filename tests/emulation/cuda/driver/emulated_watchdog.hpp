// SPDX-License-Identifier: Apache-2.0
// The watchdog: a deadlock of streams reports itself and ends the process.
#pragma once
#include "emulation/cuda/driver/emulated_stream.hpp"

namespace emucuda {

/// Begins the watch, once.
void start_watchdog();
/// Writes a line about a stream to stderr.
void describe_operation(const void* stream, int device, std::uint64_t completed,
                        std::uint64_t submitted, Doing doing, const void* about,
                        std::uint64_t value, unsigned flags);

}  // namespace emucuda
