// SPDX-License-Identifier: Apache-2.0
// How kernels that run on both ends of a connection talk: plain data, for the host and the device.
#pragma once
#include <cstdint>

namespace coll {

/// What kernels need of a direction beside its slots. They wait by looking at a word again and
/// again, so what an end looks at lies in memory of its own device. One connection serves either
/// streams or kernels: they would not see each other's messages in the slots.
///
/// Messages have numbers, from 1 on and modulo 2^32, and pass through the slots in turn; a call
/// goes on where the one before ended. Each end keeps its own count, in memory of its device. (To a
/// port a message's slot is announced as if the call began at slot 0.)
///
/// Several blocks of a kernel move a message, each a *share* of it. The sender writes its number to
/// the word `ready` of the slot and the share when the share is there. Each share has a word in
/// `read`, where the receiver writes the number when it has read the share, or there was nothing in
/// it; it sees to the words of all shares, whatever the number of its blocks is. When all words
/// have reached the number of the message that was in a slot, the sender uses the slot again.
///
/// A short message needs no word `ready`, and not the slot's memory: it travels as *lines* of 16
/// bytes, 8 of the message and twice its number. A line arrives in two halves with 4 bytes and a
/// number each, and the receiver looks at it until both have come.
///
/// A long message may be *lent*: the sender does not copy it to the slot, but says behind the word
/// `ready` where the receiver's device finds it, and leaves it as it is until it has been read. A
/// sender that has to end before that *withdraws* it: it writes to the word what is the number of
/// no message near. So a receiver looks at the word again when it has read a message that was
/// lent. If the number has changed, what it read is worthless.
///
/// All of it is 0 in the beginning.
struct KernelRing {
  static constexpr std::uint32_t kShares = 8;
  static constexpr std::uint32_t kWordBytes = 32;     ///< from word `ready` to word
  static constexpr std::uint32_t kLentAt = 8;         ///< bytes from a word `ready` to an address
  static constexpr std::uint32_t kShortBytes = 8192;  ///< the longest short message
  /// Of `reaches`: entry 0 is for memory that is not registered, the others are for what is.
  static constexpr std::uint32_t kReaches = 24;

  std::uint64_t ready = 0;  ///< words of slot 0, in the receiver's device; 0: it serves no kernels
  std::uint64_t lines = 0;  ///< of slot 0, in the receiver's device
  std::uint64_t read = 0;   ///< words of 4 bytes one behind the other, in the sender's device
  std::uint64_t count = 0;  ///< this end's KernelCount
  /// Which memory of its device the sender may lend: kReaches entries of 8 bytes, in that device.
  /// 0: the receiver does not reach it. Else 1 + the receiver's address - the sender's; these
  /// differ by an even number. Of the receiver's end: 0.
  std::uint64_t reaches = 0;
};

/// What an end has sent, or received, in all calls before.
struct KernelCount {
  std::uint32_t messages;
  std::uint32_t slot;  ///< of the next message
};

}  // namespace coll
