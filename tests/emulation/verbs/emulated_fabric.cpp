// SPDX-License-Identifier: Apache-2.0
// Work goes from queue pair to queue pair, or fails to.
#include "emulation/verbs/emulated_fabric.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace coll::test {
namespace {

constexpr std::uint32_t kPacketNumbers = 1U << 24;

/// As devices do: in order, and whoever polls the last word with an acquiring load has all of it.
void store_in_order(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t lead = std::min(bytes, (8 - reinterpret_cast<std::uintptr_t>(to) % 8) % 8);
  const std::size_t words = (bytes - lead) / 8, tail = lead + 8 * words;
  std::memcpy(to, from, lead);
  std::memcpy(to + tail, from + tail, bytes - tail);
  auto* const into = reinterpret_cast<std::uint64_t*>(to + lead);
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + lead + 8 * i, sizeof word);
    std::atomic_ref(into[i]).store(
        word, i + 1 == words ? std::memory_order_release : std::memory_order_relaxed);
  }
}

bool is_same(const ibv_gid& one, const ibv_gid& other) {
  return std::memcmp(one.raw, other.raw, sizeof one.raw) == 0;
}

/// Of a message, at least one.
std::uint32_t packets(const EmulatedPair& pair, std::uint64_t bytes) {
  const std::uint64_t mtu = std::uint64_t{128} << pair.set.path_mtu;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (bytes + mtu - 1) / mtu));
}

/// What modify_qp(3) asks for on the way from one state to another.
struct Transition {
  ibv_qp_state from, to;
  int required, optional;
};
constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

bool allows(ibv_qp_state from, ibv_qp_state to, int mask) {
  mask &= ~IBV_QP_STATE;
  if (to == IBV_QPS_ERR || to == IBV_QPS_RESET) return mask == 0;
  return std::ranges::any_of(kTransitions, [&](const Transition& way) {
    return way.from == from && way.to == to && (mask & way.required) == way.required &&
           (mask & ~(way.required | way.optional)) == 0;
  });
}

}  // namespace

void emulation_abort(const std::string& why) {
  std::fprintf(stderr, "emulated verbs: %s\n", why.c_str());
  std::abort();
}

bool EmulatedRegion::holds(std::uint64_t at, std::uint64_t bytes) const {
  const auto begin = reinterpret_cast<std::uint64_t>(addr);
  return at >= begin && bytes <= length && at - begin <= length - bytes;
}

EmulatedDevice* EmulatedFabric::device_of(const ibv_gid& gid) {
  for (const auto& one : devices)
    if (std::ranges::any_of(one->gids, [&](const ibv_gid& its) { return is_same(its, gid); }))
      return one.get();
  return nullptr;
}

void EmulatedFabric::tell(const EmulatedDevice& device, ibv_event_type event) {
  for (const auto& context : contexts) {
    if (context->device != &device) continue;
    ibv_async_event& told = context->events.emplace_back();
    told.event_type = event;
    told.element.port_num = 1;
    context->bell.ring();
  }
}

int EmulatedFabric::modify(EmulatedPair& pair, const ibv_qp_attr& wanted, int mask) {
  ibv_qp_attr& set = pair.set;
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? wanted.qp_state : pair.state;
  if (!allows(pair.state, to, mask)) return EINVAL;
  const ibv_ah_attr& way = wanted.ah_attr;
  // A RoCE address is always a global one.
  const bool has_way = (mask & IBV_QP_AV) != 0;
  if (has_way && (way.is_global == 0 || way.port_num != 1 || way.grh.sgid_index >= 2))
    return EINVAL;
  if ((mask & IBV_QP_PORT) != 0 && wanted.port_num != 1) return EINVAL;
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && wanted.pkey_index != 0) return EINVAL;
  if ((mask & IBV_QP_PATH_MTU) != 0 && (wanted.path_mtu < IBV_MTU_256 || wanted.path_mtu > kMtu))
    return EINVAL;
  if ((mask & IBV_QP_PORT) != 0) set.port_num = wanted.port_num;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) set.qp_access_flags = wanted.qp_access_flags;
  if ((mask & IBV_QP_AV) != 0) set.ah_attr = way;
  if ((mask & IBV_QP_PATH_MTU) != 0) set.path_mtu = wanted.path_mtu;
  if ((mask & IBV_QP_DEST_QPN) != 0) set.dest_qp_num = wanted.dest_qp_num;
  if ((mask & IBV_QP_RQ_PSN) != 0) set.rq_psn = wanted.rq_psn % kPacketNumbers;
  if ((mask & IBV_QP_SQ_PSN) != 0) set.sq_psn = wanted.sq_psn % kPacketNumbers;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) set.max_dest_rd_atomic = wanted.max_dest_rd_atomic;
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) set.max_rd_atomic = wanted.max_rd_atomic;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) set.min_rnr_timer = wanted.min_rnr_timer;
  if ((mask & IBV_QP_TIMEOUT) != 0) set.timeout = wanted.timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) set.retry_cnt = wanted.retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) set.rnr_retry = wanted.rnr_retry;
  if (to == IBV_QPS_ERR) {
    give_up(pair);
  } else if (to == IBV_QPS_RESET) {
    pair.sends.clear();
    pair.receives.clear();
    pair.sent = pair.sends_freed = pair.received = pair.receives_freed = 0;
    pair.loses_ack = false;
    ++pair.life;
    set = {};
  }
  pair.state = to;
  return 0;
}

int EmulatedFabric::post(EmulatedPair& pair, const ibv_send_wr& work) {
  if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) return EINVAL;
  const ibv_qp_cap& cap = pair.made.cap;
  if (pair.sent - pair.sends_freed >= cap.max_send_wr) return ENOMEM;
  if (work.opcode > IBV_WR_SEND_WITH_IMM || work.num_sge < 0) return EINVAL;
  const auto pieces = static_cast<std::uint32_t>(work.num_sge);
  if (pieces > cap.max_send_sge) return EINVAL;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < pieces; ++i) bytes += work.sg_list[i].length;
  const bool is_inline = (work.send_flags & IBV_SEND_INLINE) != 0;
  if (is_inline && bytes > cap.max_inline_data) return EINVAL;
  EmulatedSend& send = pair.sends.push();
  send.work = work;
  send.number = ++pair.sent;
  send.bytes = bytes;
  std::copy_n(work.sg_list, pieces, send.pieces.begin());
  std::size_t copied = 0;
  for (std::uint32_t i = 0; is_inline && i < pieces; ++i) {
    const ibv_sge& piece = work.sg_list[i];
    std::memcpy(send.copied.data() + copied, reinterpret_cast<const void*>(piece.addr),
                piece.length);
    copied += piece.length;
  }
  ++(send.is_write() ? counts.writes : counts.sends);
  counts.bytes += bytes;
  if (is_inline && send.is_write()) ++counts.inline_writes;
  if (pair.state == IBV_QPS_ERR)
    flush(pair);
  else
    run(pair);
  return 0;
}

int EmulatedFabric::post(EmulatedPair& pair, const ibv_recv_wr& work) {
  if (pair.state == IBV_QPS_RESET) return EINVAL;
  const ibv_qp_cap& cap = pair.made.cap;
  if (pair.received - pair.receives_freed >= cap.max_recv_wr) return ENOMEM;
  if (work.num_sge < 0 || static_cast<std::uint32_t>(work.num_sge) > cap.max_recv_sge)
    return EINVAL;
  EmulatedReceive& receive = pair.receives.push();
  receive.id = work.wr_id;
  receive.number = ++pair.received;
  receive.piece_count = work.num_sge;
  std::copy_n(work.sg_list, work.num_sge, receive.pieces.begin());
  if (pair.state == IBV_QPS_ERR) {
    flush(pair);
  } else if (const auto peer = pairs.find(pair.set.dest_qp_num); peer != pairs.end()) {
    run(*peer->second);  // it may have waited for this
  }
  return 0;
}

int EmulatedFabric::poll(EmulatedQueue& queue, int most, ibv_wc* into) {
  int got = 0;
  for (; got < most && !queue.entries.empty(); ++got) {
    const EmulatedCompletion& first = queue.entries.front();
    into[got] = first.wc;
    const auto pair = pairs.find(first.wc.qp_num);
    if (pair != pairs.end() && pair->second->life == first.life)
      (first.is_receive ? pair->second->receives_freed : pair->second->sends_freed) = first.frees;
    queue.entries.pop();
  }
  return got;
}

void EmulatedFabric::go_on(const EmulatedDevice& device) {
  for (const auto& [number, pair] : pairs)
    if (&pair->on() == &device || device_of(pair->set.ah_attr.grh.dgid) == &device) run(*pair);
}

void EmulatedFabric::exceed_retries(const EmulatedDevice& device) {
  for (const auto& [number, pair] : pairs) {
    if (&pair->on() != &device && device_of(pair->set.ah_attr.grh.dgid) != &device) continue;
    if (pair->sends.empty()) continue;
    finish_send(*pair, IBV_WC_RETRY_EXC_ERR);
  }
}

bool EmulatedFabric::is_blocked(const EmulatedPair& pair) {
  const EmulatedDevice* const there = device_of(pair.set.ah_attr.grh.dgid);
  return pair.on().blocked() || (there != nullptr && there->blocked());
}

/// Sends what the wire lets through.
void EmulatedFabric::run(EmulatedPair& pair) {
  while (pair.state == IBV_QPS_RTS && !pair.sends.empty() && !is_blocked(pair)) {
    std::optional<ibv_wc_status> status = carry(pair, pair.sends.front());
    if (!status) return;
    if (status == IBV_WC_SUCCESS && std::exchange(pair.loses_ack, false))
      status = IBV_WC_RETRY_EXC_ERR;
    finish_send(pair, *status);
  }
}

/// Null: no packet would be answered.
EmulatedPair* EmulatedFabric::peer_of(const EmulatedPair& pair) {
  const auto found = pairs.find(pair.set.dest_qp_num);
  if (found == pairs.end()) return nullptr;
  EmulatedPair& peer = *found->second;
  const bool ready = peer.state == IBV_QPS_RTR || peer.state == IBV_QPS_RTS;
  const auto goes_to = [](const EmulatedPair& from, const EmulatedPair& to) {
    const ibv_gid& address = to.on().gids[to.set.ah_attr.grh.sgid_index];
    return from.set.dest_qp_num == to.qp_num && is_same(from.set.ah_attr.grh.dgid, address);
  };
  const bool fits =
      ready && goes_to(pair, peer) && goes_to(peer, pair) && pair.set.sq_psn == peer.set.rq_psn;
  return fits ? &peer : nullptr;
}

/// How it ended; nothing: it waits for the peer to post a receive.
std::optional<ibv_wc_status> EmulatedFabric::carry(EmulatedPair& from, const EmulatedSend& send) {
  if (!gather(from, send)) return IBV_WC_LOC_PROT_ERR;
  EmulatedPair* const to = peer_of(from);
  if (to == nullptr) return IBV_WC_RETRY_EXC_ERR;
  const bool needs_receive = send.work.opcode != IBV_WR_RDMA_WRITE;
  if (needs_receive && to->receives.empty()) {
    constexpr std::uint8_t kForEver = 7;
    if (from.set.rnr_retry == kForEver) return std::nullopt;
    return IBV_WC_RNR_RETRY_EXC_ERR;
  }
  const ibv_wc_status status = deliver(send, *to);
  if (status != IBV_WC_SUCCESS) {
    if (to != &from) give_up(*to);
    return status;
  }
  const std::uint32_t count = packets(from, send.bytes);
  from.set.sq_psn = (from.set.sq_psn + count) % kPacketNumbers;
  to->set.rq_psn = (to->set.rq_psn + count) % kPacketNumbers;
  if (needs_receive) finish_receive(*to, IBV_WC_SUCCESS, &send);
  return IBV_WC_SUCCESS;
}

ibv_wc_status EmulatedFabric::deliver(const EmulatedSend& send, EmulatedPair& to) {
  if (!send.is_write()) {
    if (scatter(to, to.receives.front(), send.bytes)) return IBV_WC_SUCCESS;
    finish_receive(to, IBV_WC_LOC_LEN_ERR, nullptr);
    return IBV_WC_REM_INV_REQ_ERR;
  }
  if (send.bytes == 0) return IBV_WC_SUCCESS;  // no key is looked at
  const auto& [address, key] = send.work.wr.rdma;
  const auto found = regions.find(key);
  const bool allowed = found != regions.end() && found->second->pd == to.pd &&
                       (found->second->access & IBV_ACCESS_REMOTE_WRITE) != 0 &&
                       (to.set.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) != 0 &&
                       found->second->holds(address, send.bytes);
  if (!allowed) return IBV_WC_REM_ACCESS_ERR;
  store_in_order(reinterpret_cast<std::byte*>(address), gathered_.data(), send.bytes);
  return IBV_WC_SUCCESS;
}

EmulatedRegion* EmulatedFabric::local_region(const EmulatedPair& pair, const ibv_sge& piece,
                                             int access) {
  const auto found = regions.find(piece.lkey + 1);
  if (found == regions.end()) return nullptr;
  EmulatedRegion& region = *found->second;
  const bool allowed = region.pd == pair.pd && (region.access & access) == access &&
                       region.holds(piece.addr, piece.length);
  return allowed ? &region : nullptr;
}

bool EmulatedFabric::gather(const EmulatedPair& pair, const EmulatedSend& send) {
  if (gathered_.size() < send.bytes) gathered_.resize(send.bytes);
  if (send.is_inline()) {
    std::copy_n(send.copied.begin(), send.bytes, gathered_.begin());
    return true;
  }
  std::size_t at = 0;
  for (int i = 0; i < send.work.num_sge; ++i) {
    const ibv_sge& piece = send.pieces[static_cast<std::size_t>(i)];
    if (piece.length == 0) continue;
    if (local_region(pair, piece, 0) == nullptr) return false;
    std::memcpy(gathered_.data() + at, reinterpret_cast<const void*>(piece.addr), piece.length);
    at += piece.length;
  }
  return true;
}

}  // namespace coll::test
