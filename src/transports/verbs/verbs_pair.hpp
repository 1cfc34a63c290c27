// SPDX-License-Identifier: Apache-2.0
// A queue pair of a connection: reliable, one of each for a rail.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "sys/verbs/rdma_ports.hpp"
#include "transports/verbs/verbs_device.hpp"
#include "transports/verbs/verbs_options.hpp"

namespace coll {

/// A port of this rank with its open device.
struct VerbsRail {
  RdmaRail rail;
  VerbsDevice* device = nullptr;
  std::uint8_t mtu = 0;          ///< ibv_mtu of the port
  std::uint32_t most_bytes = 0;  ///< of a message; 0: the port does not say
};

/// How the peer's end of a queue pair is reached.
struct VerbsEnd {
  std::uint32_t number = 0;  ///< of the queue pair
  std::uint32_t first = 0;   ///< sequence number of its first packet
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;
  std::uint8_t reserved = 0;
  std::array<std::uint8_t, 16> gid{};
};

/// Memory of this end to be written to memory of the other one.
struct VerbsWrite {
  std::span<const ibv_sge> pieces;
  std::uint64_t into = 0;
  std::uint32_t key = 0;
  bool of_program = false;  ///< some of it may be a GPU's, which the processor does not reach
};

/// Sends messages and credits by RDMA writes with immediate data, in order; whoever sends through
/// it counts, so that after a failure both ends can tell what has arrived.
///
/// A pair is `idle` (made, or begun anew), then `open` to the peer, until it is `broken`: then
/// nothing that it was given is under way any more, once both ends' pairs are broken.
class VerbsPair {
 public:
  enum class State : std::uint8_t { idle, open, broken };

  /// `credits`: messages under way in either direction. `id`: of all its completions.
  static Result<std::unique_ptr<VerbsPair>> make(const VerbsRail& rail, std::uint32_t credits,
                                                 const VerbsOptions& options, std::uint32_t id);
  ~VerbsPair();
  VerbsPair(const VerbsPair&) = delete;
  VerbsPair& operator=(const VerbsPair&) = delete;

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const VerbsRail& rail() const { return rail_; }
  [[nodiscard]] const VerbsEnd& here() const { return here_; }
  /// As "rxe0:1 GID 1 (10.0.0.1), queue pair 17".
  [[nodiscard]] std::string text() const;

  /// From idle: ready to receive from that end, and to send to it.
  Status open_to(const VerbsEnd& there);
  /// Sends and receives nothing more. Work that was posted completes, in vain.
  void break_off();
  /// For good: the device reads and writes no more for it, when this returns.
  void destroy();
  /// From broken: idle, with other packet numbers.
  Status begin_anew();

  // --- sending: only while it is open and has `room`
  /// For so much work: a message takes up to two, all else one.
  [[nodiscard]] bool room(std::uint32_t work = 1) const {
    return posted_ - completed_ + work <= depth_;
  }
  /// Writes a message, of which the peer is told; `before` of it, unless null. Copies at once what
  /// is short and not the program's.
  Status send(const VerbsWrite& write, std::uint32_t immediate, const VerbsWrite* before);
  /// Writes, and nobody is told. Copies as `send`.
  Status write(const VerbsWrite& write);
  /// An immediate value by itself.
  Status say(std::uint32_t immediate);
  /// Without a message: makes what was sent before be acknowledged.
  Status fence();
  /// Work posted in this life of the pair; and of this, so much the peer's device has.
  [[nodiscard]] std::uint64_t posted() const { return posted_; }
  [[nodiscard]] std::uint64_t completed() const { return completed_; }
  /// Will a completion tell that this work, and all before it, has arrived?
  [[nodiscard]] bool will_tell(std::uint64_t work) const { return last_signalled_ >= work; }

  // --- completions: `work` is the id of a completion (wr_id)
  [[nodiscard]] static std::uint32_t id_of(std::uint64_t work) {
    return static_cast<std::uint32_t>(work >> 32);
  }
  [[nodiscard]] static bool is_receive(std::uint64_t work) { return (work & 1) != 0; }
  /// A send of this pair completed, and all before it.
  void sent(std::uint64_t work);
  /// A receive completed, in vain or not.
  void note_received() { ++received_; }
  /// Posts receives in place of those that completed, if they are enough.
  Status replenish();
  /// Nothing more can be received: all receives have completed.
  [[nodiscard]] bool drained() const { return received_ == posted_receives_; }
  /// Is `work` of the time before the pair was begun anew?
  [[nodiscard]] bool is_old(std::uint64_t work) const {
    return (static_cast<std::uint32_t>(work) >> 24) != (life_ & 0xff);
  }

 private:
  VerbsPair(const VerbsRail& rail, std::uint32_t credits, const VerbsOptions& options,
            std::uint32_t id);
  Status create();
  Status to_init();
  Status to_receive(const VerbsEnd& there);
  Status to_send();
  Status modify(ibv_qp_attr& attributes, int mask, std::string_view to);
  [[nodiscard]] ibv_send_wr work_of(const VerbsWrite& write, ibv_wr_opcode opcode) const;
  Status post(ibv_send_wr& work, bool is_awaited, ibv_send_wr* before = nullptr);
  Status post_receives(std::uint32_t count);
  [[nodiscard]] std::uint64_t work_id(std::uint64_t number, bool receive) const;

  const VerbsRail& rail_;
  const VerbsOptions& options_;
  const VerbsTable& verbs_;
  const std::uint32_t depth_;     ///< of the send queue
  const std::uint32_t receives_;  ///< posted ahead
  const std::uint32_t batch_;     ///< receives that are posted at once
  std::uint32_t inline_bytes_ = 0;
  ibv_cq* queue_ = nullptr;
  VerbsOwned<ibv_qp> pair_;
  State state_ = State::idle;
  VerbsEnd here_;
  const std::uint32_t id_;
  std::uint32_t life_ = 0;  ///< how often it was begun anew
  std::uint64_t posted_ = 0, completed_ = 0, last_signalled_ = 0;

  std::uint64_t posted_receives_ = 0, received_ = 0;
};

}  // namespace coll
