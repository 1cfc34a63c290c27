// SPDX-License-Identifier: Apache-2.0
// The emulated verbs for devices, ports and memory, each as the man page of its name has it.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "emulation/verbs/emulated_fabric.hpp"
#include "emulation/verbs/emulated_objects.hpp"

namespace coll::test {
namespace {

// --- devices

ibv_device** get_device_list(int* count) {
  EmulatedCall call("ibv_get_device_list");
  if (call.error() != 0) return null_for<ibv_device*>(call.error());
  auto** const list = new ibv_device*[call->devices.size() + 1];
  std::ranges::transform(call->devices, list, [](const auto& one) { return one.get(); });
  list[call->devices.size()] = nullptr;
  if (count != nullptr) *count = static_cast<int>(call->devices.size());
  ++call->lists;
  return list;
}

void free_device_list(ibv_device** list) {
  EmulatedCall call("");
  --call->lists;
  delete[] list;
}

const char* get_device_name(ibv_device* device) {
  return device->name;
}

ibv_context* open_device(ibv_device* device) {
  EmulatedCall call("ibv_open_device");
  if (call.error() != 0) return null_for<ibv_context>(call.error());
  EmulatedContext& made = keep(call->contexts);
  made.device = device;
  made.async_fd = made.bell.fd();
  made.cmd_fd = -1;
  made.num_comp_vectors = 1;
  return &made;
}

int close_device(ibv_context* context) {
  EmulatedCall call("ibv_close_device");
  if (call.error() != 0) return call.error();
  if (of(context).uses > 0) return EBUSY;
  destroy(call->contexts, of(context));
  return 0;
}

int query_device(ibv_context*, ibv_device_attr* into) {
  EmulatedCall call("ibv_query_device");
  if (call.error() != 0) return call.error();
  *into = {};
  into->max_mr_size = ~std::uint64_t{0};
  into->max_qp = into->max_cq = into->max_mr = into->max_pd = 1 << 16;
  into->max_qp_wr = EmulatedFabric::kMostWork;
  into->max_sge = EmulatedSend::kMostPieces;
  into->max_cqe = EmulatedFabric::kMostEntries;
  into->max_qp_rd_atom = into->max_qp_init_rd_atom = 16;
  into->phys_port_cnt = 1;
  return 0;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* into) {
  EmulatedCall call("ibv_query_port");
  if (call.error() != 0) return call.error();
  if (port != 1) return EINVAL;
  constexpr std::uint8_t kLinkUp = 5, kDisabled = 3;  // IBTA, PortPhysicalState
  const EmulatedDevice& device = of(context).on();
  *into = {};
  into->state = device.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  into->phys_state = device.up ? kLinkUp : kDisabled;
  into->max_mtu = IBV_MTU_4096;
  into->active_mtu = EmulatedFabric::kMtu;
  into->gid_tbl_len = static_cast<int>(device.gids.size());
  into->pkey_tbl_len = 1;
  into->max_msg_sz = device.most_bytes;
  into->active_width = 2;   // 4 lanes
  into->active_speed = 32;  // of 25 Gbit/s
  into->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* into) {
  EmulatedCall call("ibv_query_gid");
  if (call.error() != 0) return minus_one_for(call.error());
  const EmulatedDevice& device = of(context).on();
  if (port != 1 || index < 0 || index >= static_cast<int>(device.gids.size()))
    return minus_one_for(EINVAL);
  *into = device.gids[static_cast<std::size_t>(index)];
  return 0;
}

int get_async_event(ibv_context* context, ibv_async_event* into) {
  EmulatedCall call("ibv_get_async_event");
  if (call.error() != 0) return minus_one_for(call.error());
  EmulatedContext& from = of(context);
  if (from.events.empty()) return minus_one_for(EAGAIN);
  *into = from.events.front();
  from.events.pop_front();
  from.bell.take_one();
  ++call->unacknowledged;
  return 0;
}

void ack_async_event(ibv_async_event*) {
  --EmulatedCall("")->unacknowledged;
}

// --- memory

ibv_pd* alloc_pd(ibv_context* context) {
  EmulatedCall call("ibv_alloc_pd");
  if (call.error() != 0) return null_for<ibv_pd>(call.error());
  EmulatedDomain& made = keep(call->domains);
  made.context = context;
  ++of(context).uses;
  return &made;
}

int dealloc_pd(ibv_pd* domain) {
  EmulatedCall call("ibv_dealloc_pd");
  if (call.error() != 0) return call.error();
  if (of(domain).uses > 0) return EBUSY;
  --of(domain->context).uses;
  destroy(call->domains, of(domain));
  return 0;
}

ibv_mr* make_region(EmulatedCall& call, ibv_pd* domain, void* address, std::size_t bytes,
                    int access) {
  if (call.error() != 0) return null_for<ibv_mr>(call.error());
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
    return null_for<ibv_mr>(EINVAL);
  auto made = std::make_unique<EmulatedRegion>();
  made->context = domain->context;
  made->pd = domain;
  made->addr = address;
  made->length = bytes;
  made->access = access;
  made->lkey = call->next_region;
  made->rkey = call->next_region + 1;
  call->next_region += 2;
  ++of(domain).uses;
  return (call->regions[made->rkey] = std::move(made)).get();
}

ibv_mr* reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) {
  EmulatedCall call("ibv_reg_mr");
  return make_region(call, domain, address, bytes, access);
}

/// Of an emulated GPU, whose memory has the same addresses for all.
ibv_mr* reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                      std::uint64_t address, int descriptor, int access) {
  EmulatedCall call("ibv_reg_dmabuf_mr");
  struct stat file {};
  if (fstat(descriptor, &file) != 0) return null_for<ibv_mr>(EBADF);
  if (offset + bytes > static_cast<std::uint64_t>(file.st_size) || address % 4096 != offset % 4096)
    return null_for<ibv_mr>(EINVAL);
  return make_region(call, domain, reinterpret_cast<void*>(address), bytes, access);
}

int dereg_mr(ibv_mr* region) {
  EmulatedCall call("ibv_dereg_mr");
  if (call.error() != 0) return call.error();
  --of(region->pd).uses;
  call->regions.erase(region->rkey);
  return 0;
}

}  // namespace

void set_device_verbs(VerbsTable& table) {
  table.get_device_list = get_device_list;
  table.free_device_list = free_device_list;
  table.get_device_name = get_device_name;
  table.open_device = open_device;
  table.close_device = close_device;
  table.query_device = query_device;
  table.query_port = query_port;
  table.query_gid = query_gid;
  table.get_async_event = get_async_event;
  table.ack_async_event = ack_async_event;
  table.alloc_pd = alloc_pd;
  table.dealloc_pd = dealloc_pd;
  table.reg_mr = reg_mr;
  table.reg_dmabuf_mr = reg_dmabuf_mr;
  table.dereg_mr = dereg_mr;
}

}  // namespace coll::test
