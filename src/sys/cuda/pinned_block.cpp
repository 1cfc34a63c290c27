// SPDX-License-Identifier: Apache-2.0
// Memory of the host that devices read and write by themselves.
#include "sys/cuda/pinned_block.hpp"

#include <string>

#include "sys/cuda/current_context.hpp"

namespace coll {

Result<PinnedBlock> PinnedBlock::allocate(const CudaDriver& driver, CudaContext context,
                                          std::size_t bytes) {
  constexpr unsigned kPortable = 1;  // CU_MEMHOSTALLOC_PORTABLE
  constexpr int kRelaxed = 2;        // CU_STREAM_CAPTURE_MODE_RELAXED
  const std::string what = "pinning " + std::to_string(bytes) + " bytes of the host's memory";
  const CurrentContext current(driver, context);
  int error = current.error();
  void* data = nullptr;
  if (error == 0) {
    // A capture forbids its thread to allocate, lest that wait for the captured stream.
    int mode = kRelaxed;
    const int exchanged = driver.exchange_capture_mode(&mode);
    error = driver.host_allocate(&data, bytes, kPortable);
    if (exchanged == 0) driver.exchange_capture_mode(&mode);
  }
  if (error != 0) {
    return failed(Code::out_of_resources, what + ": " + driver.describe(error),
                  "free pinned memory, or give the operation fewer bytes at a time");
  }
  PinnedBlock block;
  block.driver_ = &driver;
  block.context_ = context;
  block.data_ = static_cast<std::byte*>(data);
  block.bytes_ = bytes;
  error = driver.host_address(&block.address_, data, 0);
  if (error != 0) return failed(Code::system, what + ": " + driver.describe(error));
  return block;
}

PinnedBlock::~PinnedBlock() {
  if (data_ == nullptr) return;
  const CurrentContext current(*driver_, context_);
  if (current.error() == 0) driver_->host_free(data_);  // else the context is gone, and it too
}

}  // namespace coll
