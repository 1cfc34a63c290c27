// SPDX-License-Identifier: Apache-2.0
// How a device uses a connection.
#pragma once
#include <cstddef>
#include <cstdint>

#include "transports/device_words.hpp"
#include "transports/kernel_ring.hpp"
#include "transports/transport.hpp"

namespace coll {

/// One direction of a connection as a device uses it: slots, each with a word at either end. A word
/// is 1 or 0. 1 in `awaited` says that this end may use the slot: the sender may write it, or the
/// receiver may read it. Who has waited for 1 puts 0 back, and then uses the slot. When it is done,
/// it writes 1 to the word in `signalled`, for which the other end waits. So words keep no count,
/// and an order of operations that was captured once can run any number of times. The messages of a
/// call pass through slot 0, 1, … and begin again at 0 behind the last one; so does the next call.
///
/// All addresses are for the device, in the context of this end.
struct DeviceRing {
  std::uint64_t slots = 0;
  std::size_t stride = 0;                                ///< bytes from slot to slot
  std::uint32_t credits = 0;                             ///< slots
  std::uint64_t awaited = 0, signalled = 0;              ///< the words of slot 0
  std::size_t awaited_stride = 0, signalled_stride = 0;  ///< bytes from word to word
  KernelRing kernels = {};

  [[nodiscard]] std::uint64_t slot(std::uint32_t index) const { return slots + index * stride; }
  [[nodiscard]] std::uint64_t awaited_word(std::uint32_t index) const {
    return awaited + index * awaited_stride;
  }
  [[nodiscard]] std::uint64_t signalled_word(std::uint32_t index) const {
    return signalled + index * signalled_stride;
  }
};

/// Of a connection's directions: which ones somebody means.
enum class Directions : std::uint8_t { sending, receiving, both };

/// Lets a device send and receive over a connection: its streams or its kernels wait for words and
/// write them, without help by the processor of this rank. A connection that can do this hands it
/// out by `Connection::device_port()`; it lives as long as the connection, and is there once that
/// is ready.
///
/// While a call of a device uses the connection, no other function of it may be called but
/// `status`, `ready`, `progress_source`.
class DevicePort {
 public:
  DevicePort(const DevicePort&) = delete;
  DevicePort& operator=(const DevicePort&) = delete;

  [[nodiscard]] const DeviceRing& sending() const { return sending_; }
  [[nodiscard]] const DeviceRing& receiving() const { return receiving_; }
  /// The words that this end awaits, for a processor that waits in place of the device.
  [[nodiscard]] const DeviceWords& may_send() const { return may_send_; }
  [[nodiscard]] const DeviceWords& may_receive() const { return may_receive_; }

  /// The device will send, or receive, a message of a call through this slot. To be told of every
  /// message, in the order of the messages, before or after the device is given its work. Whoever
  /// moves messages, or checks that both ends are in the same call, does it by this.
  virtual void will_send(std::uint32_t slot, std::size_t bytes, std::uint64_t digest) = 0;
  virtual void will_receive(std::uint32_t slot, std::size_t bytes, std::uint64_t digest) = 0;
  /// What the processor has to do for messages that were announced; true if anything moved. A
  /// failure is the connection's.
  virtual bool progress() = 0;
  /// Behind all that was announced so far.
  [[nodiscard]] virtual Mark announced() const = 0;
  /// What was announced before the mark in these directions is over, as far as the processor has to
  /// know: both ends were in the same calls. What was announced later changes nothing.
  [[nodiscard]] virtual bool settled(Mark mark, Directions of = Directions::both) const = 0;
  [[nodiscard]] bool settled() const { return settled(announced()); }
  /// A call has failed: writes 1 to all words that the device of this end may wait for. To be
  /// called again and again until the device has ended its work, which is then worthless.
  virtual void release_all() = 0;
  /// The device may not end its work at all: all that the port has given it stays for good.
  virtual void keep_for_device() = 0;

 protected:
  DevicePort() = default;
  ~DevicePort() = default;
  void set_rings(const DeviceRing& sending, const DeviceWords& may_send,
                 const DeviceRing& receiving, const DeviceWords& may_receive) {
    sending_ = sending;
    may_send_ = may_send;
    receiving_ = receiving;
    may_receive_ = may_receive;
  }

 private:
  DeviceRing sending_, receiving_;
  DeviceWords may_send_, may_receive_;
};

}  // namespace coll
