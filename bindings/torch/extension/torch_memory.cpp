// SPDX-License-Identifier: Apache-2.0
// Tensors in memory that the other ranks of this host read where it lies.
#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>

#include "torch_backend.hpp"

namespace collectives_torch {

namespace {

class SharedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = nullptr;
    if (coll_mem_alloc(&memory, bytes) != COLL_SUCCESS) {
      C10_THROW_ERROR(OutOfMemoryError, std::string("coll: ") + coll_last_error());
    }
    return {memory, memory, &free_memory, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_memory; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void free_memory(void* memory) { coll_mem_free(memory); }
};

// Tensors may outlive the group, so the allocator lives as long as the process.
SharedAllocator& allocator() {
  static SharedAllocator* const made = new SharedAllocator;
  return *made;
}

}  // namespace

std::shared_ptr<c10::Allocator> CollBackend::getMemAllocator() {
  return {&allocator(), [](c10::Allocator*) {}};
}

at::Tensor CollBackend::allocateTensor(long size, at::TensorOptions options) {
  TORCH_CHECK_VALUE(options.device().is_cpu(),
                    "coll: allocateTensor makes tensors of the CPU, not of ", options.device());
  return at::detail::empty_generic({size}, &allocator(), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                   c10::typeMetaToScalarType(options.dtype()), std::nullopt);
}

}  // namespace collectives_torch
