// SPDX-License-Identifier: Apache-2.0
// Queue pairs made, opened, broken, and given work.
#include "transports/verbs/verbs_pair.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sys/proof.hpp"

namespace coll {
namespace {

constexpr std::uint32_t kMostInline = 220;    // what common devices take without growing entries
constexpr std::uint8_t kHops = 64;            // routers of RoCE v2 and of InfiniBand on the way
constexpr std::uint8_t kNotReadyTimer = 12;   // 0.64 ms (IBTA 9.7.5.2.8); it never comes to that
constexpr std::uint8_t kNotReadyRetries = 6;  // 7 would be for ever
constexpr std::uint32_t kPacketNumbers = 1U << 24;
constexpr std::uint64_t kWorkBits = 0x7fffff;  // of work, in its id

}  // namespace

VerbsPair::VerbsPair(const VerbsRail& rail, std::uint32_t credits, const VerbsOptions& options,
                     std::uint32_t id)
    : rail_(rail),
      options_(options),
      verbs_(rail.device->verbs()),
      // Messages in two parts, credits of the other direction and hints, and as much of a margin
      // that completions may be few.
      depth_(8 * credits + 8),
      // Under way are messages and credits; as many may have been found by their stamps, with their
      // completions not taken yet. A batch more, so that receives may be posted in batches.
      receives_(4 * credits + std::max(4U, credits)),
      batch_(std::max(4U, credits)),
      pair_(nullptr, verbs_.destroy_qp),
      id_(id) {}

Result<std::unique_ptr<VerbsPair>> VerbsPair::make(const VerbsRail& rail, std::uint32_t credits,
                                                   const VerbsOptions& options, std::uint32_t id) {
  std::unique_ptr<VerbsPair> pair(new VerbsPair(rail, credits, options, id));
  COLL_TRY(pair->create());
  return pair;
}

VerbsPair::~VerbsPair() {
  pair_.reset();
  if (queue_ != nullptr) rail_.device->give_room(queue_, static_cast<int>(depth_ + receives_));
}

std::string VerbsPair::text() const {
  return rail_.rail.port.name() + " GID " + std::to_string(rail_.rail.gid.index) + " (" +
         rail_.rail.gid.text() + "), queue pair " + std::to_string(here_.number);
}

Status VerbsPair::create() {
  COLL_ASSIGN(queue_, rail_.device->take_room(static_cast<int>(depth_ + receives_)));
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queue_;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = depth_;
  wanted.cap.max_recv_wr = receives_;
  wanted.cap.max_send_sge = 2;  // a header, and a payload that is lent
  wanted.cap.max_recv_sge = 1;
  // Devices differ in what they copy into the work itself; less is only slower.
  int error = 0;
  for (const std::uint32_t bytes : {kMostInline, 64U, 0U}) {
    wanted.cap.max_inline_data = bytes;
    errno = 0;
    pair_.reset(verbs_.create_qp(rail_.device->domain(), &wanted));
    error = errno;
    if (pair_ != nullptr || error == ENOMEM) break;
  }
  if (pair_ == nullptr) return rail_.device->failed_to("ibv_create_qp", error);
  inline_bytes_ = wanted.cap.max_inline_data;
  here_.number = pair_->qp_num;
  here_.lid = rail_.rail.port.lid;
  here_.mtu = rail_.mtu;
  here_.gid = rail_.rail.gid.bytes;
  return to_init();
}

Status VerbsPair::modify(ibv_qp_attr& attributes, int mask, std::string_view to) {
  const int error = verbs_.modify_qp(pair_.get(), &attributes, mask);
  if (error == 0) return {};
  return rail_.device->failed_to("ibv_modify_qp to " + std::string(to), error).with_context(text());
}

Status VerbsPair::to_init() {
  // A late packet of another life, or of a pair that had this number, must not fit.
  COLL_ASSIGN(const std::string random, random_bytes(sizeof here_.first));
  std::memcpy(&here_.first, random.data(), sizeof here_.first);
  here_.first %= kPacketNumbers;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = options_.partition;
  attributes.port_num = rail_.rail.port.number;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  COLL_TRY(modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                  "INIT"));
  state_ = State::idle;
  posted_ = completed_ = last_signalled_ = 0;
  posted_receives_ = received_ = 0;
  return post_receives(receives_);
}

Status VerbsPair::to_receive(const VerbsEnd& there) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(here_.mtu, there.mtu));
  attributes.dest_qp_num = there.number;
  attributes.rq_psn = there.first;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kNotReadyTimer;
  ibv_ah_attr& way = attributes.ah_attr;
  way.port_num = rail_.rail.port.number;
  way.sl = options_.service_level;
  way.dlid = there.lid;
  // On InfiniBand a subnet's own addresses suffice inside of it.
  const RdmaGid& mine = rail_.rail.gid;
  const bool routed = !std::equal(mine.bytes.begin(), mine.bytes.begin() + 8, there.gid.begin());
  if (rail_.rail.port.ethernet || routed) {
    way.is_global = 1;
    std::memcpy(way.grh.dgid.raw, there.gid.data(), there.gid.size());
    way.grh.sgid_index = static_cast<std::uint8_t>(mine.index);
    way.grh.hop_limit = kHops;
    way.grh.traffic_class = options_.traffic_class;
  }
  return modify(attributes,
                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                "RTR");
}

Status VerbsPair::to_send() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = options_.timeout;
  attributes.retry_cnt = options_.retries;
  attributes.rnr_retry = kNotReadyRetries;
  attributes.sq_psn = here_.first;
  attributes.max_rd_atomic = 1;
  return modify(attributes,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                "RTS");
}

Status VerbsPair::open_to(const VerbsEnd& there) {
  COLL_TRY(to_receive(there));
  COLL_TRY(to_send());
  state_ = State::open;
  return {};
}

void VerbsPair::break_off() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  verbs_.modify_qp(pair_.get(), &attributes, IBV_QP_STATE);
  state_ = State::broken;
}

void VerbsPair::destroy() {
  pair_.reset();
  state_ = State::broken;
}

Status VerbsPair::begin_anew() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  COLL_TRY(modify(attributes, IBV_QP_STATE, "RESET"));
  ++life_;
  return to_init();
}

/// The pair, its life, the work's number, and which queue it is of.
std::uint64_t VerbsPair::work_id(std::uint64_t number, bool receive) const {
  return std::uint64_t{id_} << 32 | std::uint64_t{life_ & 0xff} << 24 | (number & kWorkBits) << 1 |
         (receive ? 1 : 0);
}

/// `is_awaited`: somebody will ask whether it has arrived.
Status VerbsPair::post(ibv_send_wr& work, bool is_awaited, ibv_send_wr* before) {
  if (before != nullptr) {
    before->wr_id = work_id(++posted_, false);
    before->next = &work;
  }
  ++posted_;
  work.wr_id = work_id(posted_, false);
  // A lone message tells when it has arrived. Of a stream some do, to make room.
  if ((is_awaited && last_signalled_ <= completed_) || posted_ - last_signalled_ >= depth_ / 4)
    work.send_flags |= IBV_SEND_SIGNALED;
  if ((work.send_flags & IBV_SEND_SIGNALED) != 0) last_signalled_ = posted_;
  ibv_send_wr* bad = nullptr;
  if (const int error = verbs_.post_send(pair_.get(), before != nullptr ? before : &work, &bad))
    return rail_.device->failed_to("ibv_post_send", error).with_context(text());
  return {};
}

ibv_send_wr VerbsPair::work_of(const VerbsWrite& write, ibv_wr_opcode opcode) const {
  ibv_send_wr work{};
  work.opcode = opcode;
  work.sg_list = const_cast<ibv_sge*>(write.pieces.data());
  work.num_sge = static_cast<int>(write.pieces.size());
  work.wr.rdma.remote_addr = write.into;
  work.wr.rdma.rkey = write.key;
  std::uint64_t bytes = 0;
  for (const ibv_sge& piece : write.pieces) bytes += piece.length;
  if (bytes <= inline_bytes_ && !write.of_program) work.send_flags |= IBV_SEND_INLINE;
  return work;
}

Status VerbsPair::send(const VerbsWrite& write, std::uint32_t immediate, const VerbsWrite* before) {
  ibv_send_wr work = work_of(write, IBV_WR_RDMA_WRITE_WITH_IMM);
  work.imm_data = immediate;
  if (before == nullptr) return post(work, true);
  ibv_send_wr first = work_of(*before, IBV_WR_RDMA_WRITE);
  return post(work, true, &first);
}

Status VerbsPair::write(const VerbsWrite& write) {
  ibv_send_wr work = work_of(write, IBV_WR_RDMA_WRITE);
  return post(work, false);
}

Status VerbsPair::say(std::uint32_t immediate) {
  ibv_send_wr work{};
  work.opcode = IBV_WR_SEND_WITH_IMM;
  work.imm_data = immediate;
  return post(work, false);
}

Status VerbsPair::fence() {
  ibv_send_wr work{};
  work.opcode = IBV_WR_RDMA_WRITE;
  work.send_flags = IBV_SEND_SIGNALED;
  return post(work, true);
}

/// The number in `work` is short, but no more are under way than it can tell.
void VerbsPair::sent(std::uint64_t work) {
  completed_ += ((work >> 1) - completed_) & kWorkBits;
}

Status VerbsPair::replenish() {
  const std::uint64_t left = posted_receives_ - received_;
  const auto missing = static_cast<std::uint32_t>(receives_ - left);
  return missing < batch_ ? Status() : post_receives(missing);
}

/// They hold no memory: all that comes is written elsewhere.
Status VerbsPair::post_receives(std::uint32_t count) {
  constexpr std::uint32_t kAtOnce = 16;
  std::array<ibv_recv_wr, kAtOnce> works{};
  while (count > 0) {
    const std::uint32_t some = std::min(count, kAtOnce);
    for (std::uint32_t i = 0; i < some; ++i) {
      works[i] = {};
      works[i].wr_id = work_id(0, true);
      works[i].next = i + 1 < some ? &works[i + 1] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    if (const int error = verbs_.post_recv(pair_.get(), works.data(), &bad))
      return rail_.device->failed_to("ibv_post_recv", error).with_context(text());
    posted_receives_ += some;
    count -= some;
  }
  return {};
}

}  // namespace coll
