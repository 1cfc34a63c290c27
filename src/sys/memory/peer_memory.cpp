// SPDX-License-Identifier: Apache-2.0
// Memory of another process, read and written without its help.
#include "sys/memory/peer_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>

#include "sys/fork_safe_mutex.hpp"
#include "sys/proof.hpp"

namespace coll {
namespace {

/// Where the others look for this process's number.
std::uint64_t g_number[2];    // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
ForkSafeMutex g_proof_mutex;  // of the number and its maker
pid_t g_made_by = 0;

/// By calls that may copy less than they are asked to.
template <class Copy>
Status copy_all(Copy copy, const char* doing, std::int64_t pid, std::uint64_t address,
                std::byte* memory, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const iovec here{memory + done, bytes - done};
    const iovec there{reinterpret_cast<void*>(address + done), bytes - done};
    const ssize_t got = copy(static_cast<pid_t>(pid), &here, 1, &there, 1, 0);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
      continue;
    }
    const std::string what = std::string(doing) + " memory of process " + std::to_string(pid);
    if (got < 0 && errno == ESRCH) return failed(Code::peer_lost, what + ": it is gone");
    if (got < 0 && (errno == EPERM || errno == ENOSYS)) {
      return failed(Code::unsupported, what, "the kernel forbids it", errno);
    }
    return system_failure(what, got < 0 ? errno : EFAULT);
  }
  return {};
}

}  // namespace

MemoryProof memory_proof() {
  const std::lock_guard lock(g_proof_mutex);
  if (g_made_by != ::getpid()) {  // a fork has its parent's numbers
    // Without random numbers the proof is zero, which nobody believes.
    const auto drawn = random_bytes(sizeof g_number);
    std::memset(g_number, 0, sizeof g_number);
    if (drawn.ok()) std::memcpy(g_number, drawn->data(), sizeof g_number);
    g_made_by = ::getpid();
  }
  return {g_made_by, reinterpret_cast<std::uint64_t>(&g_number), {g_number[0], g_number[1]}};
}

Status read_peer_memory(std::int64_t pid, std::uint64_t address, std::byte* into,
                        std::size_t bytes) {
  return copy_all(::process_vm_readv, "reading", pid, address, into, bytes);
}

Status write_peer_memory(std::int64_t pid, std::uint64_t address, const std::byte* from,
                         std::size_t bytes) {
  return copy_all(::process_vm_writev, "writing", pid, address, const_cast<std::byte*>(from),
                  bytes);
}

bool can_read_memory_of(const MemoryProof& proof) {
  std::uint64_t number[2] = {0, 0};
  if (proof.number[0] == 0 && proof.number[1] == 0) return false;
  return read_peer_memory(proof.pid, proof.address, reinterpret_cast<std::byte*>(number),
                          sizeof number)
             .ok() &&
         std::memcmp(number, proof.number, sizeof number) == 0;
}

}  // namespace coll
