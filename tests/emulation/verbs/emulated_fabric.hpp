// SPDX-License-Identifier: Apache-2.0
// What the emulated verbs make, and the wire between it.
#pragma once
#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>

#include "emulation/verbs/emulated_verbs.hpp"

namespace coll::test {

/// First in, first out, in place: what moves data must not allocate, as tests count that.
template <class Entry>
class EmulatedRing {
 public:
  explicit EmulatedRing(std::size_t entries = 0) : places_(entries) {}
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] bool full() const { return count_ == places_.size(); }
  Entry& push() { return places_[(first_ + count_++) % places_.size()]; }
  Entry& front() { return places_[first_]; }
  void pop() {
    first_ = (first_ + 1) % places_.size();
    --count_;
  }
  void clear() { count_ = 0; }

 private:
  std::vector<Entry> places_;
  std::size_t first_ = 0, count_ = 0;
};

/// A descriptor that is readable while something waits.
class EmulatedBell {
 public:
  EmulatedBell();
  EmulatedBell(const EmulatedBell&) = delete;
  EmulatedBell& operator=(const EmulatedBell&) = delete;
  ~EmulatedBell();
  [[nodiscard]] int fd() const { return fd_; }
  void ring() const;
  void take_one() const;

 private:
  int fd_;
};

struct EmulatedDevice : ibv_device {
  std::array<ibv_gid, 2> gids;  ///< link-local; IPv4
  bool up = true, held = false;
  std::uint32_t most_bytes = 1U << 31;  ///< of a message
  [[nodiscard]] bool blocked() const { return held || !up; }
};

struct EmulatedContext : ibv_context {
  EmulatedBell bell;
  std::deque<ibv_async_event> events;
  int uses = 0;
  [[nodiscard]] EmulatedDevice& on() const { return *static_cast<EmulatedDevice*>(device); }
};

struct EmulatedDomain : ibv_pd {
  int uses = 0;
};

struct EmulatedRegion : ibv_mr {
  int access = 0;
  [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t bytes) const;
};

struct EmulatedQueue;
struct EmulatedChannel : ibv_comp_channel {
  EmulatedBell bell;
  std::deque<EmulatedQueue*> events;
};

struct EmulatedCompletion {
  ibv_wc wc;
  bool is_receive, solicited;
  std::uint32_t life;   ///< of the pair
  std::uint64_t frees;  ///< places of the pair's queue, up to this
};

struct EmulatedQueue : ibv_cq {
  enum class Armed : std::uint8_t { no, solicited, any };
  EmulatedRing<EmulatedCompletion> entries;
  Armed armed = Armed::no;
  unsigned unacknowledged = 0;  ///< events that were taken
  int uses = 0;
};

struct EmulatedSend {
  static constexpr std::uint32_t kMostPieces = 8, kMostInline = 256;
  ibv_send_wr work;
  std::uint64_t number, bytes;
  std::array<ibv_sge, kMostPieces> pieces;
  std::array<std::byte, kMostInline> copied;
  [[nodiscard]] bool is_inline() const { return (work.send_flags & IBV_SEND_INLINE) != 0; }
  [[nodiscard]] bool is_write() const {
    return work.opcode == IBV_WR_RDMA_WRITE || work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  [[nodiscard]] bool has_immediate() const {
    return work.opcode == IBV_WR_SEND_WITH_IMM || work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
};

struct EmulatedReceive {
  std::uint64_t id;
  std::uint64_t number;
  int piece_count;
  std::array<ibv_sge, EmulatedSend::kMostPieces> pieces;
};

struct EmulatedPair : ibv_qp {
  ibv_qp_init_attr made;
  ibv_qp_attr set;                   ///< the packet numbers are those of the next packets
  EmulatedRing<EmulatedSend> sends;  ///< not yet through the wire
  EmulatedRing<EmulatedReceive> receives;
  std::uint32_t life = 0;  ///< how often it was reset
  std::uint64_t sent = 0, sends_freed = 0, received = 0, receives_freed = 0;
  bool loses_ack = false;
  [[nodiscard]] EmulatedDevice& on() const {
    return *static_cast<EmulatedDevice*>(context->device);
  }
};

/// What is to happen at a call.
struct EmulatedFault {
  std::string verb;
  int left;
  int error;
  std::function<void()> action;
};

/// All state; whoever calls its functions holds its mutex.
class EmulatedFabric {
 public:
  static constexpr int kMostEntries = 1 << 16, kMostWork = 1 << 14;
  static constexpr ibv_mtu kMtu = IBV_MTU_1024;

  explicit EmulatedFabric(int count);

  EmulatedDevice& device(int number) { return *devices.at(static_cast<std::size_t>(number)); }
  /// Null: no device has it.
  EmulatedDevice* device_of(const ibv_gid& gid);
  void tell(const EmulatedDevice& device, ibv_event_type event);

  int modify(EmulatedPair& pair, const ibv_qp_attr& attributes, int mask);
  int post(EmulatedPair& pair, const ibv_send_wr& work);
  int post(EmulatedPair& pair, const ibv_recv_wr& work);
  int poll(EmulatedQueue& queue, int most, ibv_wc* into);
  /// Lets what waits for the device go on, where it can.
  void go_on(const EmulatedDevice& device);
  void exceed_retries(const EmulatedDevice& device);
  /// What was not destroyed, in words.
  [[nodiscard]] std::string left() const;

  std::mutex mutex;
  std::vector<EmulatedFault> faults;
  EmulatedVerbs::Counts counts;
  int lists = 0, unacknowledged = 0;  ///< lists of devices not freed; events that were taken
  std::uint32_t next_pair = 17, next_region = 1000;
  std::vector<std::unique_ptr<EmulatedDevice>> devices;
  std::set<std::unique_ptr<EmulatedContext>> contexts;
  std::set<std::unique_ptr<EmulatedDomain>> domains;
  std::set<std::unique_ptr<EmulatedChannel>> channels;
  std::set<std::unique_ptr<EmulatedQueue>> queues;
  std::map<std::uint32_t, std::unique_ptr<EmulatedRegion>> regions;  ///< by their remote keys
  std::map<std::uint32_t, std::unique_ptr<EmulatedPair>> pairs;

 private:
  void run(EmulatedPair& pair);
  std::optional<ibv_wc_status> carry(EmulatedPair& from, const EmulatedSend& send);
  ibv_wc_status deliver(const EmulatedSend& send, EmulatedPair& to);
  EmulatedPair* peer_of(const EmulatedPair& pair);
  bool is_blocked(const EmulatedPair& pair);
  bool gather(const EmulatedPair& pair, const EmulatedSend& send);
  bool scatter(const EmulatedPair& pair, const EmulatedReceive& receive, std::uint64_t bytes);
  EmulatedRegion* local_region(const EmulatedPair& pair, const ibv_sge& piece, int access);
  void finish_send(EmulatedPair& pair, ibv_wc_status status);
  void finish_receive(EmulatedPair& pair, ibv_wc_status status, const EmulatedSend* by);
  void give_up(EmulatedPair& pair);
  void flush(EmulatedPair& pair);
  void complete(ibv_cq* into, const EmulatedCompletion& completion);

  std::vector<std::byte> gathered_;
};

/// Begins a call: what is to happen at it has happened, and the fabric is locked.
class EmulatedCall {
 public:
  explicit EmulatedCall(std::string_view verb);
  EmulatedFabric* operator->() const { return fabric_; }
  EmulatedFabric& operator*() const { return *fabric_; }
  /// It is to fail with this; 0: not.
  [[nodiscard]] int error() const { return error_; }

 private:
  EmulatedFabric* fabric_;
  int error_ = 0;
  std::unique_lock<std::mutex> lock_;
};

/// A misuse of which real devices would hang or lose data.
[[noreturn]] void emulation_abort(const std::string& why);
void set_device_verbs(VerbsTable& table);
void set_queue_verbs(VerbsTable& table);

}  // namespace coll::test
