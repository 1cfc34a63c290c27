// SPDX-License-Identifier: Apache-2.0
// How work of the emulated verbs ends, and who is told.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "emulation/verbs/emulated_fabric.hpp"

namespace coll::test {
namespace {

/// Only these are valid of a completion that failed.
ibv_wc failed_completion(std::uint64_t id, ibv_wc_status status) {
  ibv_wc made;
  std::memset(&made, 0x7f, sizeof made);
  made.wr_id = id;
  made.status = status;
  made.vendor_err = 0;
  return made;
}

}  // namespace

EmulatedBell::EmulatedBell() : fd_(eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd_ < 0) emulation_abort("no eventfd is left: raise the limit of open files (ulimit -n)");
}

EmulatedBell::~EmulatedBell() {
  close(fd_);
}

void EmulatedBell::ring() const {
  if (eventfd_write(fd_, 1) != 0) emulation_abort("an event descriptor was closed");
}

void EmulatedBell::take_one() const {
  eventfd_t one = 0;
  if (eventfd_read(fd_, &one) != 0) emulation_abort("an event descriptor was read or closed");
}

void EmulatedFabric::complete(ibv_cq* into, const EmulatedCompletion& completion) {
  auto& queue = static_cast<EmulatedQueue&>(*into);
  if (queue.entries.full())
    emulation_abort("a completion queue of " + std::to_string(queue.cqe) +
                    " entries overflows: poll it sooner, or make it larger");
  queue.entries.push() = completion;
  using Armed = EmulatedQueue::Armed;
  const bool wakes =
      queue.armed == Armed::any || (queue.armed == Armed::solicited && completion.solicited);
  if (!wakes) return;
  queue.armed = Armed::no;
  if (queue.channel == nullptr) return;
  auto& channel = static_cast<EmulatedChannel&>(*queue.channel);
  channel.events.push_back(&queue);
  channel.bell.ring();
}

void EmulatedFabric::finish_send(EmulatedPair& pair, ibv_wc_status status) {
  const EmulatedSend& send = pair.sends.front();
  const bool tells = status != IBV_WC_SUCCESS || pair.made.sq_sig_all != 0 ||
                     (send.work.send_flags & IBV_SEND_SIGNALED) != 0;
  EmulatedCompletion made{};
  made.life = pair.life;
  made.frees = send.number;
  if (status == IBV_WC_SUCCESS) {
    made.wc.wr_id = send.work.wr_id;
    made.wc.opcode = send.is_write() ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
    made.wc.byte_len = static_cast<std::uint32_t>(send.bytes);
  } else {
    made.wc = failed_completion(send.work.wr_id, status);
    made.solicited = true;
  }
  made.wc.qp_num = pair.qp_num;
  pair.sends.pop();
  if (tells) complete(pair.send_cq, made);
  if (status != IBV_WC_SUCCESS && pair.state != IBV_QPS_ERR) give_up(pair);
}

/// `by`: what was received, if it succeeded.
void EmulatedFabric::finish_receive(EmulatedPair& pair, ibv_wc_status status,
                                    const EmulatedSend* by) {
  const EmulatedReceive& receive = pair.receives.front();
  EmulatedCompletion made{};
  made.is_receive = true;
  made.life = pair.life;
  made.frees = receive.number;
  if (by != nullptr) {
    made.wc.wr_id = receive.id;
    made.wc.opcode = by->is_write() ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    made.wc.byte_len = static_cast<std::uint32_t>(by->bytes);
    made.wc.src_qp = pair.set.dest_qp_num;
    if (by->has_immediate()) {
      made.wc.imm_data = by->work.imm_data;
      made.wc.wc_flags = IBV_WC_WITH_IMM;
    }
    made.solicited = (by->work.send_flags & IBV_SEND_SOLICITED) != 0;
  } else {
    made.wc = failed_completion(receive.id, status);
    made.solicited = true;
  }
  made.wc.qp_num = pair.qp_num;
  pair.receives.pop();
  complete(pair.recv_cq, made);
}

void EmulatedFabric::give_up(EmulatedPair& pair) {
  pair.state = IBV_QPS_ERR;
  flush(pair);
}

void EmulatedFabric::flush(EmulatedPair& pair) {
  while (!pair.sends.empty()) finish_send(pair, IBV_WC_WR_FLUSH_ERR);
  while (!pair.receives.empty()) finish_receive(pair, IBV_WC_WR_FLUSH_ERR, nullptr);
}

/// Into the memory that the receive names; false: it has too little.
bool EmulatedFabric::scatter(const EmulatedPair& pair, const EmulatedReceive& receive,
                             std::uint64_t bytes) {
  std::uint64_t at = 0;
  for (int i = 0; i < receive.piece_count && at < bytes; ++i) {
    const ibv_sge& piece = receive.pieces[static_cast<std::size_t>(i)];
    const std::uint64_t some = std::min<std::uint64_t>(piece.length, bytes - at);
    if (local_region(pair, piece, IBV_ACCESS_LOCAL_WRITE) == nullptr) return false;
    std::memcpy(reinterpret_cast<void*>(piece.addr), gathered_.data() + at, some);
    at += some;
  }
  return at == bytes;
}

std::string EmulatedFabric::left() const {
  std::string text;
  const auto add = [&](std::size_t count, const char* what) {
    if (count == 0) return;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(pairs.size(), "queue pairs");
  add(queues.size(), "completion queues");
  add(regions.size(), "memory regions");
  add(domains.size(), "protection domains");
  add(channels.size(), "completion channels");
  add(contexts.size(), "contexts");
  add(static_cast<std::size_t>(lists), "device lists");
  add(static_cast<std::size_t>(unacknowledged), "unacknowledged device events");
  return text;
}

}  // namespace coll::test
