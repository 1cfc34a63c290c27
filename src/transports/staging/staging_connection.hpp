// SPDX-License-Identifier: Apache-2.0
// A connection by which a device sends and receives through memory of this host.
#pragma once
#include <cstdint>
#include <memory>

#include "base/kept_queue.hpp"
#include "sys/cuda/device_memory.hpp"
#include "sys/memory/shared_arena.hpp"
#include "transports/announced_messages.hpp"
#include "transports/device_words.hpp"
#include "transports/staging/device_slots.hpp"
#include "transports/wrapped_connection.hpp"

namespace coll {

/// The device copies between its memory and slots that are pinned here; `progress` passes what is
/// in them over the inner connection. There a message of a device is a message like any other, so
/// the peer may be a rank without a device, and need not know.
///
/// The slots lie in memory that other processes map: where the inner connection can lend, the peer
/// reads them where they lie, and where messages may land, it writes them there. Where its devices
/// reach the GPU's memory, the slots to send from lie there. All are made when `device_port` is
/// asked for.
class StagingConnection final : public WrappedConnection, public DevicePort {
 public:
  /// Each direction gets `credits` slots. The driver has all that work on streams needs.
  StagingConnection(std::unique_ptr<Connection> inner, CudaContext context, std::uint32_t credits)
      : WrappedConnection(std::move(inner)), context_(context), credits_(credits) {}
  ~StagingConnection() override {
    withdraw_loans();
    if (freed_ > 0 && landing() != nullptr) landing()->cancel();
  }

  /// The first time it pins memory, so not while a stream of this thread is captured. Null: there
  /// is no memory for it, and the connection has failed.
  DevicePort* device_port() override;

  void will_send(std::uint32_t slot, std::size_t bytes, std::uint64_t digest) override;
  void will_receive(std::uint32_t slot, std::size_t bytes, std::uint64_t digest) override;
  bool progress() override;
  [[nodiscard]] Mark announced() const override { return messages_.mark(); }
  [[nodiscard]] bool settled(Mark mark, Directions of) const override {
    return messages_.is_over(mark, of);
  }
  using DevicePort::settled;
  void release_all() override;
  void keep_for_device() override;

 private:
  /// A message that the device sends or receives.
  struct Announced {
    std::uint32_t slot = 0;
    std::size_t bytes = 0;
    std::uint64_t digest = 0;
  };
  /// A slot that the peer may be reading.
  struct Loan {
    std::uint32_t slot = 0;
    Mark mark = 0;
  };
  /// One direction: its slots, and the words that the device waits for and writes.
  struct Direction {
    std::byte* slots = nullptr;
    DeviceWords awaited, signalled;
  };

  Status make_slots();
  [[nodiscard]] bool sends_from_device() const { return on_device_ && on_device_->served(); }
  [[nodiscard]] std::byte* place(const Direction& direction, std::uint32_t slot) const {
    return direction.slots + slot * slot_bytes();
  }
  bool send_next();
  void expect_next();
  bool receive_next();
  bool take_back_loan();
  void withdraw_loans();

  const CudaContext context_;
  const std::uint32_t credits_;
  SharedArena::OwnedBlock memory_;
  CudaPiece pinned_;                        ///< `memory_`, which is unpinned first
  std::unique_ptr<DeviceSlots> on_device_;  ///< to send from, if they are `served()`
  Direction out_, in_;
  KeptQueue<Announced> to_send_, to_receive_;
  KeptQueue<Loan> loans_;
  AnnouncedMessages messages_;
  std::uint32_t freed_ = 0;  ///< messages to receive whose slots the device has freed
};

}  // namespace coll
