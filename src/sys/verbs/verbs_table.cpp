// SPDX-License-Identifier: Apache-2.0
// Finds libibverbs and its functions.
#include "sys/verbs/verbs_table.hpp"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/made_once.hpp"
#include "sys/shared_library.hpp"

namespace coll {
namespace {

// What the wrappers below call; set before anybody has the table.
constinit std::atomic<decltype(ibv_query_port)*> g_query_port{nullptr};
constinit std::atomic<decltype(ibv_reg_mr)*> g_reg_mr{nullptr};
constinit std::atomic<decltype(ibv_reg_mr_iova2)*> g_reg_mr_iova2{nullptr};

/// As the header's inline function: the exported one fills in a shorter struct, and serves only
/// providers of old.
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  const verbs_context* const whole = verbs_get_ctx(context);
  // The struct grows at its front: `sz` says how much of it a provider has.
  constexpr std::size_t kNeeded = sizeof *whole - offsetof(verbs_context, query_port);
  if (whole != nullptr && whole->sz >= kNeeded && whole->query_port != nullptr)
    return whole->query_port(context, port, attributes, sizeof *attributes);
  std::memset(attributes, 0, sizeof *attributes);
  return g_query_port.load(std::memory_order_acquire)(
      context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
}

ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) {
  return register_by(g_reg_mr.load(std::memory_order_acquire),
                     g_reg_mr_iova2.load(std::memory_order_acquire), domain, address, bytes,
                     access);
}

Result<VerbsTable> verbs_of_library() {
  const auto library = SharedLibrary::open({"libibverbs.so.1"});
  if (!library.ok()) {
    return failed(Code::unsupported, "libibverbs cannot be loaded: " + library.status().text(),
                  "install it (Debian: libibverbs1 and ibverbs-providers; others: rdma-core); "
                  "without RDMA devices it is not needed");
  }
  std::string missing;
  const auto find = [&]<class Function>(const char* name, Function*& function) {
    if (!library->find(name, function))
      missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  VerbsTable table;
  find("ibv_get_device_list", table.get_device_list);
  find("ibv_free_device_list", table.free_device_list);
  find("ibv_get_device_name", table.get_device_name);
  find("ibv_open_device", table.open_device);
  find("ibv_close_device", table.close_device);
  find("ibv_query_device", table.query_device);
  find("ibv_query_gid", table.query_gid);
  find("ibv_get_async_event", table.get_async_event);
  find("ibv_ack_async_event", table.ack_async_event);
  find("ibv_alloc_pd", table.alloc_pd);
  find("ibv_dealloc_pd", table.dealloc_pd);
  find("ibv_dereg_mr", table.dereg_mr);
  find("ibv_create_comp_channel", table.create_comp_channel);
  find("ibv_destroy_comp_channel", table.destroy_comp_channel);
  find("ibv_create_cq", table.create_cq);
  find("ibv_destroy_cq", table.destroy_cq);
  find("ibv_get_cq_event", table.get_cq_event);
  find("ibv_ack_cq_events", table.ack_cq_events);
  find("ibv_create_qp", table.create_qp);
  find("ibv_modify_qp", table.modify_qp);
  find("ibv_query_qp", table.query_qp);
  find("ibv_destroy_qp", table.destroy_qp);
  decltype(ibv_query_port)* exported_query_port = nullptr;
  decltype(ibv_reg_mr)* exported_reg_mr = nullptr;
  decltype(ibv_reg_mr_iova2)* newer_reg_mr = nullptr;
  find("ibv_query_port", exported_query_port);
  find("ibv_reg_mr", exported_reg_mr);
  library->find("ibv_reg_dmabuf_mr", table.reg_dmabuf_mr);
  library->find("ibv_reg_mr_iova2", newer_reg_mr);  // from rdma-core 28 on
  if (!missing.empty()) {
    return failed(Code::unsupported, "libibverbs.so.1 lacks " + missing,
                  "install the libibverbs of rdma-core");
  }
  g_query_port.store(exported_query_port, std::memory_order_release);
  g_reg_mr.store(exported_reg_mr, std::memory_order_release);
  g_reg_mr_iova2.store(newer_reg_mr, std::memory_order_release);
  // A fork must not take away pages that devices write. Kernels from 5.12 on see to that, and then
  // the call does nothing; before that it has to come before all other calls.
  int (*fork_init)() = nullptr;
  if (library->find("ibv_fork_init", fork_init)) fork_init();
  table.query_port = query_port;
  table.reg_mr = reg_mr;
  // The library does not export these: the header calls the provider at once.
  table.req_notify_cq = ibv_req_notify_cq;
  table.poll_cq = ibv_poll_cq;
  table.post_send = ibv_post_send;
  table.post_recv = ibv_post_recv;
  return table;
}

}  // namespace

ibv_mr* register_by(decltype(ibv_reg_mr)* plain, decltype(ibv_reg_mr_iova2)* newer, ibv_pd* domain,
                    void* address, std::size_t bytes, int access) {
  constexpr int kOptional = IBV_ACCESS_OPTIONAL_RANGE;
  if ((access & kOptional) != 0 && newer != nullptr) {
    return newer(domain, address, bytes, reinterpret_cast<std::uintptr_t>(address),
                 static_cast<unsigned>(access));
  }
  return plain(domain, address, bytes, access & ~kOptional);
}

const Result<VerbsTable>& load_verbs() {
  return made_once([] { return verbs_of_library(); });
}

}  // namespace coll
