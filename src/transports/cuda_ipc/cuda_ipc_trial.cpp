// SPDX-License-Identifier: Apache-2.0
// Opens what another process's GPU has, and closes it again.
#include "transports/cuda_ipc/cuda_ipc_trial.hpp"

#include <cstring>

#include "sys/cuda/current_context.hpp"
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

}  // namespace

Result<std::string> offer_memory(CudaContext context, CudaAddress memory) {
  CudaIpcHello hello;
  hello.process = memory_proof();
  COLL_TRY(CudaIpcReach::introduce(context, hello));
  const CudaDriver& driver = *loaded_cuda_driver();
  const CurrentContext current(driver, context);
  int error = current.error();
  if (error == 0) error = driver.ipc_handle(&hello.ring, memory);
  if (error != 0) return driver.failed_to("exporting memory of a GPU", error);
  std::string text(sizeof hello, '\0');
  std::memcpy(text.data(), &hello, sizeof hello);
  return text;
}

Status try_offered_memory(CudaContext context, std::string_view own, std::string_view offered) {
  COLL_ASSIGN(const CudaIpcHello mine, read_offer(own));
  COLL_ASSIGN(const CudaIpcHello peer, read_offer(offered));
  COLL_TRY(CudaIpcReach::may_open(mine, peer));
  if (CudaIpcReach::is_same_process(mine, peer)) return {};
  return CudaPiece::open(context, peer.ring).status();
}

}  // namespace coll
