// SPDX-License-Identifier: Apache-2.0
// The script, and the FIFO of one direction that follows it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "transports/transport.hpp"

namespace coll {

/// Something that happens to one message.
struct FakeFault {
  enum class Kind : std::uint8_t {
    cut,     ///< the connection is lost, and the message with it
    digest,  ///< it arrives with another digest
    length,  ///< it arrives one byte too long
  };
  Kind kind = Kind::cut;
  Rank from = 0;
  Rank to = 0;
  std::uint32_t lane = 0;
  std::uint64_t message = 0;  ///< counted from 0, per direction
};

/// How the network behaves. The default delivers everything at once.
struct FakeScript {
  std::uint64_t seed = 1;
  /// Messages wait 0 … this many calls of progress(), first of the sender's, then of the
  /// receiver's.
  std::uint32_t max_delay = 0;
  /// send() and receive() get only partly through 0 … this many times per message.
  std::uint32_t max_refusals = 0;
  /// Each message finds 1 … all of the connection's credits in use for good measure.
  bool vary_credits = false;
  static constexpr std::size_t kNever = ~std::size_t{0};
  /// Messages of at least this many bytes (1 or more) may be lent: the receiver reads them where
  /// they lie, whenever it looks. kNever: connections have no `lending`.
  std::size_t least_loan = kNever;
  std::map<Rank, std::size_t> least_loan_to = {};  ///< instead, of messages to these ranks
  /// What lies on both sides of an address that this divides may not be lent; 0: everything may.
  std::size_t loan_window = 0;
  /// Messages of at least this many bytes are written where the receiver expects them. kNever:
  /// connections have no `landing`.
  std::size_t least_landing = kNever;
  bool lands_only_computed = false;  ///< connections say so
  /// Messages are lent from memory of emulated GPUs.
  bool serves_gpus = false;
  PathCapabilities path{.shares_memory = true, .medium = PathMedium::memory};
  Transport::Limits limits{.slot_bytes = 4096, .slice_bytes = 4096, .credits = 4};
  std::vector<FakeFault> faults = {};
};

/// One direction of a link, which guards it.
class FakeFifo {
 public:
  struct Message {
    std::vector<std::byte> payload;   ///< slot_bytes long
    const std::byte* lent = nullptr;  ///< where it lies instead
    bool kept = false;                ///< and its memory outlives the call
    std::byte* landed = nullptr;      ///< where the receiver expected it
    std::size_t bytes = 0;
    std::uint64_t digest = 0;
    std::uint32_t leaves_in = 0;   ///< calls of the sender's progress()
    std::uint32_t arrives_in = 0;  ///< and then of the receiver's

    [[nodiscard]] const std::byte* sent_from() const {
      return lent != nullptr ? lent : payload.data();
    }
    [[nodiscard]] const std::byte* place() const {
      return landed != nullptr ? landed : sent_from();
    }
  };

  FakeFifo(const FakeScript& script, Rank from, Rank to, const ConnectionSpec& spec);

  /// The place of the next message, null without a credit.
  Message* acquire();
  /// `lent`: where the payload lies, if not in the message. False: a fault cut the connection
  /// instead.
  bool commit(std::size_t bytes, std::uint64_t digest, const std::byte* lent = nullptr,
              bool kept = false);
  /// True as often as the script wants the next message refused; then false until `commit`.
  bool refuses_send() { return refuse(send_refusals_); }
  void progress_sender();
  [[nodiscard]] Mark committed() const { return committed_; }
  /// All messages before the mark have left, and those that were lent until the call ends are read.
  [[nodiscard]] bool flushed(Mark mark) const;
  [[nodiscard]] bool caught_up() const { return consumed_ >= lent_ && consumed_ >= kept_; }

  void withdraw() { withdrawn_ = withdrawn_ || consumed_ < lent_; }
  [[nodiscard]] bool is_withdrawn(const Message& message) const {
    return withdrawn_ && message.lent != nullptr && !message.kept;
  }

  /// Messages ever consumed.
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }
  /// Is the next message, of `bytes`, wanted somewhere?
  [[nodiscard]] bool will_land(std::size_t bytes) const;
  void expect(std::uint64_t number, std::byte* into, std::size_t bytes, bool part_first);
  /// Nothing lands any more. False: something was still to land.
  bool cancel();
  /// The next message, null while there is none.
  Message* next();
  bool refuses_receive() { return refuse(receive_refusals_); }
  /// The receiver has a part of the next message, and waits for the part behind it.
  void pass_part() { plan_receive(); }
  void release();
  void progress_receiver();
  [[nodiscard]] bool drained() const { return consumed_ == committed_; }

 private:
  using Random = std::mt19937_64;

  static bool refuse(std::uint32_t& left) { return left > 0 && left-- > 0; }
  static std::uint32_t draw(Random& random, std::uint32_t most) {
    return most == 0 ? 0 : static_cast<std::uint32_t>(random() % (std::uint64_t{most} + 1));
  }
  Message& at(std::uint64_t index) { return ring_[index % ring_.size()]; }
  void settle();
  void land(Message& message);
  void plan_send();
  void plan_receive();

  const FakeScript& script_;
  std::vector<FakeFault> faults_;  ///< of this direction
  Random sender_random_;
  Random receiver_random_;
  std::vector<Message> ring_;
  std::size_t usable_ = 0;  ///< credits for the next message
  std::uint32_t send_refusals_ = 0;
  std::uint32_t receive_refusals_ = 0;
  bool acquired_ = false;
  // Messages ever …
  std::uint64_t committed_ = 0;
  std::uint64_t left_ = 0;
  std::uint64_t arrived_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t lent_ = 0;  ///< up to the last one that was lent until the call ends
  std::uint64_t kept_ = 0;  ///< up to the last one whose memory outlives it
  bool withdrawn_ = false;

  struct Place {
    std::byte* into;
    std::size_t bytes;
  };
  std::map<std::uint64_t, Place> expected_;  ///< by the number of the message
  std::uint64_t told_ = 0;                   ///< behind the last message that was expected
};

}  // namespace coll
