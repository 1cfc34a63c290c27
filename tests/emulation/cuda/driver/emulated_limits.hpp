// SPDX-License-Identifier: Apache-2.0
// The sizes of an emulated GPU: those of compute capability 9.0, as NVIDIA's programming guide
// lists them.
#pragma once

namespace emucuda {

constexpr int kProcessors = 132;
constexpr int kProcessorThreads = 2048, kProcessorBlocks = 32, kProcessorShared = 228 << 10;
constexpr int kBlockThreads = 1024, kBlockDepth = 64;
constexpr int kBlockShared = 48 << 10, kBlockSharedOnDemand = 227 << 10;
constexpr int kReservedShared = 1 << 10;  // of each block, the system's own
constexpr int kGridWidth = 0x7fffffff, kGridHeight = 65535;

}  // namespace emucuda
