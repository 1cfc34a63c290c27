// SPDX-License-Identifier: Apache-2.0
// What it costs to copy memory, one's own and that of another process, measured.
#pragma once

namespace coll {

/// Microseconds per byte, of tens of KiB in the caches: a plain copy, and one by the system call
/// that reads another process. Machines differ: process_vm_readv took little longer than a copy on
/// one, 8 times as long on another (docs/performance.md).
struct MemoryCosts {
  double copy_us_per_byte = 0;
  double fetch_us_per_byte = 0;  ///< infinite where the kernel forbids the call altogether
  double fetch_us = 0;           ///< of the call without its bytes; 0 where it is forbidden
};

/// Measured in this process when first asked for, in 0.15 ms; the same ever after. Also finds out
/// whether `copy_bytes` had better avoid some copies of the C library.
const MemoryCosts& memory_costs();

}  // namespace coll
