// SPDX-License-Identifier: Apache-2.0
// A connection over the emulated verbs, by their table alone.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <optional>

#include "emulation/verbs/emulated_verbs.hpp"

namespace coll::test {

class EmulatedSide {
 public:
  static constexpr std::uint32_t kSends = 8, kReceives = 8, kFirst = 0xfffff0;
  static constexpr int kEntries = 32;

  EmulatedSide(const EmulatedVerbs& verbs, int device)
      : table(verbs.table()), rail(verbs.rails({device})[0]) {
    int count = 0;
    ibv_device** const list = table.get_device_list(&count);
    context = table.open_device(list[device]);
    table.free_device_list(list);
    domain = table.alloc_pd(context);
    channel = table.create_comp_channel(context);
    queue = table.create_cq(context, kEntries, this, channel, 0);
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {kSends, kReceives, 3, 1, 64};
    pair = table.create_qp(domain, &wanted);
    region = table.reg_mr(domain, memory, sizeof memory,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  }
  EmulatedSide(const EmulatedSide&) = delete;
  EmulatedSide& operator=(const EmulatedSide&) = delete;
  ~EmulatedSide() {
    if (pair != nullptr) {
      EXPECT_EQ(table.destroy_qp(pair), 0);
    }
    EXPECT_EQ(table.dereg_mr(region), 0);
    EXPECT_EQ(table.destroy_cq(queue), 0);
    EXPECT_EQ(table.destroy_comp_channel(channel), 0);
    EXPECT_EQ(table.dealloc_pd(domain), 0);
    EXPECT_EQ(table.close_device(context), 0);
  }

  int to_state(ibv_qp_state state) const {
    ibv_qp_attr wanted{};
    wanted.qp_state = state;
    return table.modify_qp(pair, &wanted, IBV_QP_STATE);
  }
  int to_init() const {
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_INIT;
    wanted.port_num = 1;
    wanted.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    return table.modify_qp(pair, &wanted,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  int to_receive_from(const EmulatedSide& peer, std::uint32_t first = kFirst) const {
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_RTR;
    wanted.path_mtu = IBV_MTU_1024;
    wanted.dest_qp_num = peer.pair->qp_num;
    wanted.rq_psn = first;
    wanted.max_dest_rd_atomic = 1;
    wanted.ah_attr.is_global = 1;
    wanted.ah_attr.port_num = 1;
    wanted.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(rail.gid.index);
    std::memcpy(wanted.ah_attr.grh.dgid.raw, peer.rail.gid.bytes.data(), 16);
    return table.modify_qp(pair, &wanted,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  int to_send(std::uint32_t first = kFirst, std::uint8_t not_ready_retries = 6) const {
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_RTS;
    wanted.sq_psn = first;
    wanted.rnr_retry = not_ready_retries;
    return table.modify_qp(pair, &wanted,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }

  int receive(std::uint64_t id) const {
    ibv_recv_wr work{};
    work.wr_id = id;
    ibv_recv_wr* bad = nullptr;
    return table.post_recv(pair, &work, &bad);
  }
  /// Of all its memory from `offset` on; the last word is `word`.
  [[nodiscard]] ibv_send_wr write_to(const EmulatedSide& peer, std::uint64_t id, ibv_sge& piece,
                                     std::size_t offset = 0) const {
    piece = {reinterpret_cast<std::uint64_t>(memory + offset),
             static_cast<std::uint32_t>(sizeof memory - offset), region->lkey};
    ibv_send_wr work{};
    work.wr_id = id;
    work.sg_list = &piece;
    work.num_sge = 1;
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.send_flags = IBV_SEND_SIGNALED;
    work.imm_data = static_cast<std::uint32_t>(1000 + id);
    work.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(peer.memory + offset);
    work.wr.rdma.rkey = peer.region->rkey;
    return work;
  }
  int write(const EmulatedSide& peer, std::uint64_t id) const {
    ibv_sge piece;
    return post(write_to(peer, id, piece));
  }
  int say(std::uint64_t id) const {
    ibv_send_wr work{};
    work.wr_id = id;
    work.opcode = IBV_WR_SEND_WITH_IMM;
    work.imm_data = static_cast<std::uint32_t>(1000 + id);
    return post(work);
  }
  [[nodiscard]] int post(ibv_send_wr work) const {
    ibv_send_wr* bad = nullptr;
    return table.post_send(pair, &work, &bad);
  }

  [[nodiscard]] std::optional<ibv_wc> poll() const {
    ibv_wc made{};
    return table.poll_cq(queue, 1, &made) == 1 ? std::optional(made) : std::nullopt;
  }
  /// As "1 ok, 2 flushed": by their numbers, in order.
  [[nodiscard]] std::string poll_all() const {
    std::string text;
    while (const std::optional<ibv_wc> one = poll())
      text += (text.empty() ? "" : ", ") + std::to_string(one->wr_id) + " " + word(one->status);
    return text;
  }
  static std::string word(ibv_wc_status status) {
    switch (status) {
      case IBV_WC_SUCCESS:
        return "ok";
      case IBV_WC_WR_FLUSH_ERR:
        return "flushed";
      case IBV_WC_RETRY_EXC_ERR:
        return "unanswered";
      case IBV_WC_RNR_RETRY_EXC_ERR:
        return "not ready";
      case IBV_WC_REM_ACCESS_ERR:
        return "no access";
      case IBV_WC_LOC_PROT_ERR:
        return "not its memory";
      default:
        return "status " + std::to_string(status);
    }
  }
  [[nodiscard]] ibv_qp_attr attributes() const {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr made{};
    EXPECT_EQ(table.query_qp(pair, &attributes, IBV_QP_STATE, &made), 0);
    return attributes;
  }
  [[nodiscard]] ibv_qp_state state() const { return attributes().qp_state; }

  const VerbsTable& table;
  const RdmaRail rail;
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* queue = nullptr;
  ibv_qp* pair = nullptr;
  ibv_mr* region = nullptr;
  alignas(8) std::byte memory[256] = {};
};

inline bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

/// Two ends that are connected, with receives 100, 101 … posted.
struct EmulatedConnection : testing::Test {
  EmulatedVerbs verbs;
  EmulatedSide here{verbs, 0}, there{verbs, 1};

  void SetUp() override {
    for (const EmulatedSide* one : {&here, &there}) {
      EXPECT_EQ(one->to_init(), 0);
      for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(one->receive(100 + i), 0);
    }
    connect();
  }
  void connect() const {
    EXPECT_EQ(here.to_receive_from(there), 0);
    EXPECT_EQ(there.to_receive_from(here), 0);
    EXPECT_EQ(here.to_send(), 0);
    EXPECT_EQ(there.to_send(), 0);
  }
};

}  // namespace coll::test
