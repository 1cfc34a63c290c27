// SPDX-License-Identifier: Apache-2.0
// Memory of another process, read and written without its help.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/status.hpp"

namespace coll {

/// A number that only this process has at this address: who can read it there has this process
/// before it, and may.
struct MemoryProof {
  std::int64_t pid = 0;  ///< in this process's own namespace
  std::uint64_t address = 0;
  std::uint64_t number[2] = {0, 0};
};

/// This process's proof, the same for its whole life.
MemoryProof memory_proof();

/// Reads `bytes` at `address` of process `pid`, all of them (process_vm_readv). Code::peer_lost:
/// the process is gone; Code::unsupported: the kernel forbids it.
Status read_peer_memory(std::int64_t pid, std::uint64_t address, std::byte* into,
                        std::size_t bytes);

/// Writes `bytes` of this process to `address` of process `pid`, all of them (process_vm_writev).
/// Fails as read_peer_memory does.
Status write_peer_memory(std::int64_t pid, std::uint64_t address, const std::byte* from,
                         std::size_t bytes);

/// Can this process read the memory of the process that gave `proof`?
bool can_read_memory_of(const MemoryProof& proof);

}  // namespace coll
