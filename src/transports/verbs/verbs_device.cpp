// SPDX-License-Identifier: Apache-2.0
// Devices opened, completion queues added and polled.
#include "transports/verbs/verbs_device.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace coll {
namespace {

constexpr int kQueueEntries = 4096;  // of a completion queue, where the device allows as many

std::string cause_of(std::string_view verb, int error) {
  if (error == EACCES || error == EPERM)
    return "the process needs access to /dev/infiniband, in a container too";
  if (verb == "ibv_open_device")
    return "is /dev/infiniband there (modules ib_uverbs and the device's), in a container too?";
  if (error == ENOMEM && verb == "ibv_reg_mr")
    return "raise the limit of locked memory (ulimit -l), or lower COLL_CREDITS and "
           "COLL_SLICE_BYTES";
  if (error == ENOMEM || error == ENOSPC)
    return "the device or the limit of locked memory (ulimit -l) has no room: fewer connections, "
           "or lower COLL_LANES";
  if (error == EINVAL && verb == "ibv_create_qp")
    return "the device has no queue pair as deep: lower COLL_CREDITS";
  if (verb.starts_with("ibv_modify_qp"))
    return "check that the port is up, that both ends' addresses (GIDs) reach each other and have "
           "the same MTU, and the keys of COLL_VERBS";
  return {};
}

}  // namespace

Status verb_failure(std::string_view verb, const std::string& device, int error) {
  return system_failure(device + ": " + std::string(verb), error, cause_of(verb, error));
}

VerbsDevice::VerbsDevice(const VerbsTable& verbs, std::string name)
    : verbs_(verbs),
      name_(std::move(name)),
      context_(nullptr, verbs.close_device),
      domain_(nullptr, verbs.dealloc_pd),
      channel_(nullptr, verbs.destroy_comp_channel) {}

/// A queue cannot go while an event of it is not acknowledged.
VerbsDevice::~VerbsDevice() {
  for (Queue& one : queues_)
    if (one.events > 0) verbs_.ack_cq_events(one.queue.get(), one.events);
}

Result<std::unique_ptr<VerbsDevice>> VerbsDevice::open(const VerbsTable& verbs,
                                                       const std::string& name) {
  int count = 0;
  errno = 0;
  ibv_device** const list = verbs.get_device_list(&count);
  if (list == nullptr) return verb_failure("ibv_get_device_list", name, errno);
  std::unique_ptr<VerbsDevice> opened(new VerbsDevice(verbs, name));
  ibv_device** const end = list + count;
  ibv_device** const found = std::find_if(
      list, end, [&](ibv_device* device) { return name == verbs.get_device_name(device); });
  const Status made = found == end
                          ? failed(Code::unsupported, name + ": libibverbs has no driver for it",
                                   "install ibverbs-providers (rdma-core)")
                          : opened->make(*found);
  verbs.free_device_list(list);
  if (!made.ok()) return made;
  return opened;
}

Status VerbsDevice::make(ibv_device* device) {
  errno = 0;
  context_.reset(verbs_.open_device(device));
  if (context_ == nullptr) return failed_to("ibv_open_device", errno);
  ibv_device_attr attributes{};
  if (const int error = verbs_.query_device(context_.get(), &attributes))
    return failed_to("ibv_query_device", error);
  most_entries_ = std::max(1, attributes.max_cqe);
  domain_.reset(verbs_.alloc_pd(context_.get()));
  if (domain_ == nullptr) return failed_to("ibv_alloc_pd", errno);
  channel_.reset(verbs_.create_comp_channel(context_.get()));
  if (channel_ == nullptr) return failed_to("ibv_create_comp_channel", errno);
  for (const int fd : {wait_fd(), event_fd()})
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
      return failed_to("making its descriptors non-blocking", errno);
  return {};
}

Result<VerbsOwned<ibv_mr>> VerbsDevice::register_memory(std::byte* data, std::size_t bytes,
                                                        int access) const {
  errno = 0;
  VerbsOwned<ibv_mr> region(verbs_.reg_mr(domain(), data, bytes, access), verbs_.dereg_mr);
  if (region == nullptr)
    return failed_to("ibv_reg_mr", errno)
        .with_context("registering " + std::to_string(bytes) + " bytes");
  return region;
}

Result<VerbsOwned<ibv_mr>> VerbsDevice::register_dma_buf(int descriptor, std::uint64_t address,
                                                         std::size_t bytes, int access) const {
  if (verbs_.reg_dmabuf_mr == nullptr)
    return failed(Code::unsupported, "libibverbs has no ibv_reg_dmabuf_mr",
                  "install rdma-core 34 or newer");
  errno = 0;
  VerbsOwned<ibv_mr> region(verbs_.reg_dmabuf_mr(domain(), 0, bytes, address, descriptor, access),
                            verbs_.dereg_mr);
  if (region == nullptr)
    return failed_to("ibv_reg_dmabuf_mr", errno)
        .with_context("registering " + std::to_string(bytes) + " bytes of a GPU");
  return region;
}

Status VerbsDevice::add_queue(int entries) {
  errno = 0;
  const int size = std::min(std::max(entries, kQueueEntries), most_entries_);
  queues_.reserve(queues_.size() + 1);
  VerbsOwned<ibv_cq> queue(verbs_.create_cq(context_.get(), size, nullptr, channel_.get(), 0),
                           verbs_.destroy_cq);
  if (queue == nullptr) return failed_to("ibv_create_cq", errno);
  queues_.push_back({std::move(queue), size});
  return {};
}

Result<ibv_cq*> VerbsDevice::take_room(int entries) {
  const auto has_room = [&](const Queue& one) { return one.entries - one.taken >= entries; };
  auto found = std::ranges::find_if(queues_, has_room);
  if (found == queues_.end()) {
    COLL_TRY(add_queue(entries));
    found = queues_.end() - 1;
    if (!has_room(*found))
      return failed(Code::out_of_resources,
                    name_ + ": a completion queue has " + std::to_string(found->entries) +
                        " entries, a connection needs " + std::to_string(entries),
                    "lower COLL_CREDITS");
  }
  found->taken += entries;
  return found->queue.get();
}

void VerbsDevice::give_room(const ibv_cq* queue, int entries) {
  for (Queue& one : queues_)
    if (one.queue.get() == queue) one.taken -= entries;
}

Result<int> VerbsDevice::poll(ibv_wc* completions, int most) {
  for (std::size_t tried = 0; tried < queues_.size(); ++tried) {
    Queue& one = queues_[next_];
    const int got = verbs_.poll_cq(one.queue.get(), most, completions);
    if (got < 0) return failed_to("ibv_poll_cq", got == -1 ? EIO : -got);
    if (got > 0) return got;
    next_ = next_ + 1 == queues_.size() ? 0 : next_ + 1;
  }
  return 0;
}

Status VerbsDevice::arm() {
  for (const Queue& one : queues_)
    if (const int error = verbs_.req_notify_cq(one.queue.get(), 0))
      return failed_to("ibv_req_notify_cq", error);
  return {};
}

void VerbsDevice::disarm() {
  constexpr unsigned kManyEvents = 128;
  ibv_cq* queue = nullptr;
  void* cookie = nullptr;
  while (verbs_.get_cq_event(channel_.get(), &queue, &cookie) == 0) {
    for (Queue& one : queues_) {
      if (one.queue.get() != queue) continue;
      // To acknowledge takes a lock, so many are acknowledged at once.
      if (++one.events < kManyEvents) continue;
      verbs_.ack_cq_events(queue, one.events);
      one.events = 0;
    }
  }
}

bool VerbsDevice::take_events() {
  bool any = false;
  ibv_async_event event{};
  while (verbs_.get_async_event(context_.get(), &event) == 0) {
    verbs_.ack_async_event(&event);
    any = true;
  }
  return any;
}

Result<ibv_port_attr> VerbsDevice::port(std::uint8_t number) const {
  ibv_port_attr attributes{};
  if (const int error = verbs_.query_port(context_.get(), number, &attributes))
    return failed_to("ibv_query_port", error);
  return attributes;
}

}  // namespace coll
