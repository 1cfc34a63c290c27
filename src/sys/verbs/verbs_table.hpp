// SPDX-License-Identifier: Apache-2.0
// The functions of libibverbs, which is loaded at run time, as a table.
#pragma once
#include <infiniband/verbs.h>
// The header wraps these two names in macros of its own.
#undef ibv_reg_mr
#undef ibv_query_port

#include "base/status.hpp"

namespace coll {

/// The functions that are used, as the library has them; a test fills in its own, and so makes any
/// call fail. Each returns what the verb of its name returns (ibv_create_qp(3) and so on): null or
/// an errno for a failure.
struct VerbsTable {
  ibv_device** (*get_device_list)(int* count) = nullptr;
  void (*free_device_list)(ibv_device** list) = nullptr;
  const char* (*get_device_name)(ibv_device* device) = nullptr;
  ibv_context* (*open_device)(ibv_device* device) = nullptr;
  int (*close_device)(ibv_context* context) = nullptr;
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes) = nullptr;
  int (*query_port)(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) = nullptr;
  int (*query_gid)(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) = nullptr;
  int (*get_async_event)(ibv_context* context, ibv_async_event* event) = nullptr;
  void (*ack_async_event)(ibv_async_event* event) = nullptr;

  ibv_pd* (*alloc_pd)(ibv_context* context) = nullptr;
  int (*dealloc_pd)(ibv_pd* domain) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd* domain, void* address, std::size_t bytes, int access) = nullptr;
  /// Null where the library has none: it is from rdma-core 34 on.
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                           std::uint64_t address, int descriptor, int access) = nullptr;
  int (*dereg_mr)(ibv_mr* region) = nullptr;

  ibv_comp_channel* (*create_comp_channel)(ibv_context* context) = nullptr;
  int (*destroy_comp_channel)(ibv_comp_channel* channel) = nullptr;
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* cookie, ibv_comp_channel* channel,
                       int vector) = nullptr;
  int (*destroy_cq)(ibv_cq* queue) = nullptr;
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** cookie) = nullptr;
  void (*ack_cq_events)(ibv_cq* queue, unsigned count) = nullptr;
  int (*req_notify_cq)(ibv_cq* queue, int solicited_only) = nullptr;
  int (*poll_cq)(ibv_cq* queue, int entries, ibv_wc* completions) = nullptr;

  ibv_qp* (*create_qp)(ibv_pd* domain, ibv_qp_init_attr* attributes) = nullptr;
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask) = nullptr;
  int (*query_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask,
                  ibv_qp_init_attr* made) = nullptr;
  int (*destroy_qp)(ibv_qp* pair) = nullptr;
  int (*post_send)(ibv_qp* pair, ibv_send_wr* work, ibv_send_wr** bad) = nullptr;
  int (*post_recv)(ibv_qp* pair, ibv_recv_wr* work, ibv_recv_wr** bad) = nullptr;
};

/// As the header's macro ibv_reg_mr. Kernels may not know the optional flags, as
/// IBV_ACCESS_RELAXED_ORDERING is; only `newer` keeps those from them. Where it is null, in a
/// library from before rdma-core 28, memory is registered without these flags.
ibv_mr* register_by(decltype(ibv_reg_mr)* plain, decltype(ibv_reg_mr_iova2)* newer, ibv_pd* domain,
                    void* address, std::size_t bytes, int access);

/// Loads the library at most once, for good. Fails, and says so, where it is not installed.
const Result<VerbsTable>& load_verbs();

}  // namespace coll
