// SPDX-License-Identifier: Apache-2.0
// The C ABI's memory.
#include "c_api/c_api_door.hpp"
#include "sys/memory/registered_memory.hpp"
#include "sys/memory/shared_arena.hpp"
#include "transports/cuda_ipc/cuda_ipc_end.hpp"

using coll::Code;
using coll::failed;
using coll::guarded;
using coll::refuse_null;
using coll::Status;

extern "C" {

coll_status_t coll_mem_alloc(void** memory, size_t bytes) {
  if (memory == nullptr) return refuse_null("coll_mem_alloc", "memory");
  return guarded([&]() -> Status {
    COLL_ASSIGN(coll::SharedArena * arena, coll::SharedArena::of_this_process());
    COLL_ASSIGN(*memory, arena->allocate(bytes));
    return {};
  });
}

coll_status_t coll_mem_free(void* memory) {
  if (memory == nullptr) return COLL_SUCCESS;
  return guarded([&]() -> Status {
    COLL_ASSIGN(coll::SharedArena * arena, coll::SharedArena::of_this_process());
    return arena->free(static_cast<std::byte*>(memory));
  });
}

coll_status_t coll_mem_register(const void* address, size_t bytes) {
  if (address == nullptr) return refuse_null("coll_mem_register", "address");
  return guarded([&]() -> Status {
    if (bytes == 0) {
      return failed(Code::invalid_argument, "coll_mem_register: bytes is 0",
                    "register memory where there is some");
    }
    return coll::register_memory(static_cast<const std::byte*>(address), bytes)
        .with_context("coll_mem_register");
  });
}

coll_status_t coll_mem_deregister(const void* address) {
  if (address == nullptr) return COLL_SUCCESS;
  return guarded([&]() -> Status {
    // What was a connection keeps memory of a GPU until somebody sees that the peer has closed it.
    coll::CudaIpcEnd::drop_closed_offers();
    return coll::deregister_memory(static_cast<const std::byte*>(address))
        .with_context("coll_mem_deregister");
  });
}

}  // extern "C"
