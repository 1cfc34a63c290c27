// SPDX-License-Identifier: Apache-2.0
// What the fused kernel is given: plain values, the same for the host that launches and for the
// device.
//
// A program's image is its lanes, then its links, then its steps, one behind the other. All
// addresses are the device's.
#pragma once
#include <cstdint>
#include <type_traits>

namespace coll::fused {

/// A step of a lane, in the terms of BoundStep.
struct FusedStep {
  static constexpr std::uint16_t kNone = 0xffff;
  // What `flags` has.
  static constexpr std::uint8_t kFinish = 1;
  static constexpr std::uint8_t kAwaited = 2;  ///< another step of this rank waits for it
  // Its message may be lent until the call ends: in every call; in a call that is not in place.
  static constexpr std::uint8_t kLends = 4, kLendsApart = 8;

  std::uint8_t from_space = 0, with_space = 0, into_space = 0, flags = 0;  ///< spaces: see Space
  std::uint16_t source = kNone, target = kNone;                            ///< links of the lane
  std::uint16_t from_block = 0, with_block = 0, into_block = 0;
  std::uint16_t part = 0, count = 0;
  std::uint16_t wait_lane = kNone, wait_step = 0;
  // Its messages' places among the messages of one pass in their direction.
  std::uint32_t received = 0, sent = 0;
};

/// One direction of a link, as DeviceRing and KernelRing have it.
struct FusedWay {
  std::uint64_t slots = 0, ready = 0, lines = 0, read = 0, count = 0, reaches = 0;
  std::uint32_t stride = 0, credits = 1;
  std::uint32_t messages = 0;  ///< of one pass of the lane
  std::uint32_t peer = 0;
};

/// A connection of a lane.
struct FusedLink {
  FusedWay sending, receiving;
};

struct FusedLane {
  std::uint32_t first_step = 0, steps = 0, first_link = 0, links = 0;
  std::uint32_t first_pass = 0;     ///< the number of its copy
  std::uint32_t first_sibling = 0;  ///< lane 0 of the same copy
  std::uint64_t scratch = 0;
};

/// Of the kernel coll_fused.
struct FusedArguments {
  static constexpr std::uint32_t kShortImage = 3584;  ///< bytes: all arguments may take 4 KiB

  std::uint64_t input = 0, output = 0;
  // How the call is cut (Windows), in elements.
  std::uint64_t count = 0, elements = 0, chunk = 0, passes = 0;
  std::uint64_t share = 0;  ///< of every chunk, each share of a message has so many
  std::uint32_t element_bytes = 1, parts = 1, copies = 1;
  std::uint32_t lanes = 0;   ///< of the program; 0: there is nothing to do
  std::uint32_t shares = 1;  ///< 1 if messages are short
  std::uint32_t is_short = 0;
  std::uint32_t lends = 0;  ///< those of kLends and kLendsApart that hold for this call; 0 if short
  std::uint32_t input_reach = 0, output_reach = 0;  ///< entries of FusedWay::reaches
  std::uint32_t one_shot = 0;  ///< the program is one_shot's all_reduce, and kOneShotBytes suffice
  std::uint32_t ranks = 1, rank = 0;
  std::uint32_t op = 0, type = 0;
  std::uint32_t links_at = 0, steps_at = 0;  ///< bytes from the image's begin
  std::uint64_t image = 0;                   ///< 0: it is `short_image`
  std::uint64_t arrived = 0;                 ///< word: the blocks that have ended; 0 between runs
  std::uint64_t progress = 0;  ///< for each share of each lane how far it is; 0 between runs
  std::uint64_t over = 0;      ///< word of the host: becomes kDone or kAborted at the end
  std::uint64_t abort = 0;     ///< word of the host: who begins or waits gives up if it is 1
  std::uint8_t short_image[kShortImage] = {};

  static constexpr std::uint32_t kDone = 1, kAborted = 2;
};

// They travel as bytes.
static_assert(std::is_trivially_copyable_v<FusedStep> && sizeof(FusedStep) == 32);
static_assert(std::is_trivially_copyable_v<FusedLink> && sizeof(FusedLink) % 8 == 0);
static_assert(std::is_trivially_copyable_v<FusedLane> && sizeof(FusedLane) % 8 == 0);
static_assert(std::is_trivially_copyable_v<FusedArguments> && sizeof(FusedArguments) <= 4096);

/// Threads of a block: for long messages, and for short ones, where each barrier counts.
inline constexpr unsigned kThreads = 512, kShortThreads = 256;

/// What a block has for the inputs of all ranks, each rounded up to 16 bytes.
inline constexpr std::uint32_t kOneShotBytes = 32768;
inline constexpr std::uint32_t kOneShotRanks = 64;  ///< it takes so many at most

}  // namespace coll::fused
