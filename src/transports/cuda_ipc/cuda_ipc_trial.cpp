// SPDX-License-Identifier: Apache-2.0
// Opens what another process's GPU has, and closes it again.
#include "transports/cuda_ipc/cuda_ipc_trial.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "sys/fork_safe_mutex.hpp"
#include "transports/cuda_ipc/cuda_ipc_end.hpp"

namespace coll {
namespace {

Result<CudaIpcHello> read_offer(std::string_view offer) {
  CudaIpcHello hello;
  if (offer.size() != sizeof hello)
    return failed(Code::mismatch, "the ranks have other versions of this library");
  std::memcpy(&hello, offer.data(), sizeof hello);
  return hello;
}

/// A device of another process that was reached. Processes that meet again do not try again: to
/// close memory may wait for calls that are under way by then.
struct Reached {
  CudaContext context;
  MemoryProof process;
  CudaUuid device;
};

ForkSafeMutex g_reached_mutex;              // guards `g_reached`
std::vector<Reached>* g_reached = nullptr;  // stays for good

bool was_reached(CudaContext context, const CudaIpcHello& peer) {
  const std::lock_guard lock(g_reached_mutex);
  if (g_reached == nullptr) return false;
  return std::ranges::any_of(*g_reached, [&](const Reached& each) {
    return each.context == context && is_same(each.process, peer.process) &&
           std::memcmp(each.device.bytes, peer.device.bytes, sizeof peer.device.bytes) == 0;
  });
}

void note_reached(CudaContext context, const CudaIpcHello& peer) {
  const std::lock_guard lock(g_reached_mutex);
  if (g_reached == nullptr) g_reached = new std::vector<Reached>;
  g_reached->push_back({context, peer.process, peer.device});
}

}  // namespace

Result<std::string> offer_memory(CudaContext context, CudaAddress memory) {
  CudaIpcHello hello;
  hello.process = memory_proof();
  COLL_TRY(CudaIpcReach::introduce(context, hello));
  COLL_ASSIGN(const ExportedMemory exported, export_memory(context, memory));
  hello.ring = exported.allocation;
  std::string text(sizeof hello, '\0');
  std::memcpy(text.data(), &hello, sizeof hello);
  return text;
}

Status try_offered_memory(CudaContext context, std::string_view own, std::string_view offered) {
  COLL_ASSIGN(const CudaIpcHello mine, read_offer(own));
  COLL_ASSIGN(const CudaIpcHello peer, read_offer(offered));
  COLL_TRY(CudaIpcReach::may_open(mine, peer));
  if (is_same(mine.process, peer.process)) return {};
  if (was_reached(context, peer)) return {};
  COLL_TRY(CudaPiece::open(context, peer.ring).status());
  note_reached(context, peer);
  return {};
}

}  // namespace coll
