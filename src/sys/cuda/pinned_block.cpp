// SPDX-License-Identifier: Apache-2.0
// Memory of the host that devices read and write by themselves.
#include "sys/cuda/pinned_block.hpp"

#include <string>

#include "sys/cuda/beside_captures.hpp"
#include "sys/cuda/current_context.hpp"

namespace coll {

Result<PinnedBlock> PinnedBlock::allocate(const CudaDriver& driver, CudaContext context,
                                          std::size_t bytes) {
  constexpr unsigned kPortable = 1;  // CU_MEMHOSTALLOC_PORTABLE
  const std::string what = "pinning " + std::to_string(bytes) + " bytes of the host's memory";
  const CurrentContext current(driver, context);
  int error = current.error();
  void* data = nullptr;
  if (error == 0) {
    const BesideCaptures beside(driver);
    error = driver.host_allocate(&data, bytes, kPortable);
  }
  if (error != 0) {
    return driver.failed_to(what, error,
                            "free pinned memory, or give the operation fewer bytes at a time");
  }
  PinnedBlock block;
  block.driver_ = &driver;
  block.context_ = context;
  block.data_ = static_cast<std::byte*>(data);
  block.bytes_ = bytes;
  error = driver.host_address(&block.address_, data, 0);
  if (error != 0) return driver.failed_to(what, error);
  return block;
}

PinnedBlock::~PinnedBlock() {
  if (data_ == nullptr) return;
  const CurrentContext current(*driver_, context_);
  if (current.error() != 0) return;  // the context is gone, and it too
  const BesideCaptures beside(*driver_);
  driver_->host_free(data_);
}

}  // namespace coll
