// SPDX-License-Identifier: Apache-2.0
// The registered memory of a connection: slots that messages leave from and arrive in.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "transports/verbs/verbs_device.hpp"

namespace coll {

/// What precedes the payload in a slot.
struct VerbsHeader {
  /// In `released`: the payload is where the receiver wanted it.
  static constexpr std::uint32_t kLanded = 0x80000000;

  std::uint32_t bytes = 0;
  /// Messages of the other direction that the sender has consumed, by the low 31 bits.
  std::uint32_t released = 0;
  std::uint64_t digest = 0;
};

/// Where a receiver wants a message, as it lies in the sender's memory. What checks it is like the
/// stamp of a message, so that a hint for another one is none.
struct VerbsHint {
  static constexpr std::size_t kMostPairs = 8;
  std::uint64_t address = 0;
  std::array<std::uint32_t, kMostPairs> keys{};  ///< by pair, of the receiver's memory
  std::uint32_t bytes = 0;
  std::uint32_t reserved[3] = {};
  std::uint64_t check = 0;
};
static_assert(sizeof(VerbsHint) == 64);

/// A message travels as one piece: its header, its payload, and behind a short payload a stamp, so
/// who finds the stamp has the message, and need not wait for its completion. A stamp is made of a
/// secret of the receiver's and of all that precedes it. So no payload that once lay there looks
/// like it, and it is not found before the rest is there: devices may write the bytes of a packet
/// in any order, and Soft-RoCE's memcpy goes backward for some addresses.
class VerbsSlots {
 public:
  /// Longer payloads have no stamp: with it they may not be in one packet of the smallest size, 256
  /// bytes.
  static constexpr std::size_t kStampedBytes = 192;

  VerbsSlots() = default;
  VerbsSlots(const VerbsSlots&) = delete;
  VerbsSlots& operator=(const VerbsSlots&) = delete;
  ~VerbsSlots();

  /// `credits` slots of `slot_bytes` to send from, and as many to receive into.
  Status allocate(std::uint32_t credits, std::size_t slot_bytes);
  /// For work of that device, too.
  Status register_at(const VerbsDevice& device);
  [[nodiscard]] std::uint32_t local_key(const VerbsDevice& device) const;
  [[nodiscard]] std::uint32_t remote_key(const VerbsDevice& device) const;

  [[nodiscard]] std::byte* payload_out(std::uint64_t message) const {
    return out(message) + kPayloadAt;
  }
  [[nodiscard]] const std::byte* payload_in(std::uint64_t message) const {
    return in(message) + kPayloadAt;
  }
  [[nodiscard]] VerbsHeader header_out(std::uint64_t message) const {
    VerbsHeader header;
    std::memcpy(&header, out(message) + kHeaderAt, sizeof header);
    return header;
  }
  void set_header_out(std::uint64_t message, const VerbsHeader& header) const {
    std::memcpy(out(message) + kHeaderAt, &header, sizeof header);
  }
  /// What is to be written to the peer's slots; of a lent message the header alone.
  struct Whole {
    ibv_sge piece;
    std::uint64_t offset;  ///< from the begin of the peer's slots to receive into
  };
  /// Stamps the message whose header and payload lie in their places.
  [[nodiscard]] Whole finish(std::uint64_t message, std::uint64_t secret, std::uint32_t key,
                             bool is_lent) const;

  /// The message has come, if its payload has `bytes`.
  [[nodiscard]] bool has_stamp(std::uint64_t message, std::size_t bytes,
                               std::uint64_t secret) const {
    if (bytes > kStampedBytes) return false;
    std::byte* const begin = in(message) + kHeaderAt;
    const std::size_t whole = sizeof(VerbsHeader) + stamp_at(bytes);
    if (word(begin + whole) != stamp(begin, whole, secret)) return false;
    std::atomic_thread_fence(std::memory_order_acquire);
    return true;
  }
  [[nodiscard]] VerbsHeader header_in(std::uint64_t message) const {
    VerbsHeader header;
    std::memcpy(&header, in(message) + kHeaderAt, sizeof header);
    return header;
  }
  /// Where the peer writes.
  [[nodiscard]] std::uint64_t address_in() const { return reinterpret_cast<std::uint64_t>(in(0)); }
  [[nodiscard]] std::size_t bytes() const {
    return 2 * (stride_ * credits_ + hints() * sizeof(VerbsHint));
  }

  /// Messages for which there is a hint at a time: enough that the hint for a message is there
  /// before the credit for it.
  [[nodiscard]] std::uint64_t hints() const { return std::uint64_t{4} * credits_; }
  void set_hint_out(std::uint64_t message, VerbsHint hint, std::uint64_t secret) const;
  /// What the peer has to be told of `count` messages whose hints lie in a row, and its place from
  /// the begin of the peer's slots to receive into.
  [[nodiscard]] Whole hints_out(std::uint64_t first, std::uint64_t count, std::uint32_t key) const;
  /// Of that message of so many bytes, if it has come.
  [[nodiscard]] std::optional<VerbsHint> hint_in(std::uint64_t message, std::uint32_t bytes,
                                                 std::uint64_t secret) const;

 private:
  static constexpr std::size_t kPayloadAt = 64, kHeaderAt = kPayloadAt - sizeof(VerbsHeader);
  struct Region {
    const VerbsDevice* device;
    VerbsOwned<ibv_mr> region;
  };

  static std::size_t stamp_at(std::size_t bytes) { return (bytes + 7) / 8 * 8; }
  /// A device may be writing it.
  static std::uint64_t word(std::byte* place) {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(place))
        .load(std::memory_order_relaxed);
  }
  /// Of these words: another one for any that differs.
  static std::uint64_t stamp(std::byte* begin, std::size_t bytes, std::uint64_t secret) {
    std::uint64_t x = secret;
    for (std::size_t at = 0; at < bytes; at += sizeof x) {
      x = (x ^ word(begin + at)) * 0x9e3779b97f4a7c15;
      x ^= x >> 32;
    }
    return x;
  }
  [[nodiscard]] std::byte* out(std::uint64_t message) const {
    return memory_ + message % credits_ * stride_;
  }
  [[nodiscard]] std::byte* in(std::uint64_t message) const {
    return memory_ + (credits_ + message % credits_) * stride_;
  }
  /// All hints in, then all hints out, behind the slots.
  [[nodiscard]] std::byte* hint_place(std::uint64_t message, bool outgoing) const {
    const std::uint64_t index = message % hints() + (outgoing ? hints() : 0);
    return memory_ + 2 * stride_ * credits_ + index * sizeof(VerbsHint);
  }
  [[nodiscard]] const Region& region_of(const VerbsDevice& device) const;

  std::byte* memory_ = nullptr;
  std::size_t mapped_ = 0, stride_ = 0;
  std::uint32_t credits_ = 1;
  std::vector<Region> regions_;
};

}  // namespace coll
