// SPDX-License-Identifier: Apache-2.0
// The queue pairs of one connection, as one way that survives the loss of some.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sys/clock.hpp"
#include "transports/verbs/verbs_control.hpp"
#include "transports/verbs/verbs_landings.hpp"
#include "transports/verbs/verbs_slots.hpp"

namespace coll {

/// Of a message's number, in immediate values.
inline constexpr std::uint32_t kVerbsNumberBits = 0x7fffffff;

/// What an end tells the other when they meet, under the proof of their greeting.
struct VerbsMeeting {
  static constexpr std::size_t kMostPairs = VerbsHint::kMostPairs;
  struct Pair {
    VerbsEnd end;
    std::uint32_t key = 0;  ///< of the slots, for writes through this pair
  };
  std::uint64_t slots = 0;   ///< address of the first slot to write to
  std::uint64_t secret = 0;  ///< of the stamps that this end takes
  std::uint32_t pairs = 0;
  std::uint32_t reserved = 0;
  std::array<Pair, kMostPairs> pair{};
};

/// What the ways tell their connection.
class VerbsReceiver {
 public:
  /// A message, by the low 31 bits of its number.
  virtual void has_arrived(std::uint32_t message) = 0;
  /// The peer has consumed so many messages, by the low 31 bits.
  virtual void has_consumed(std::uint32_t messages) = 0;
  /// Messages that this end has consumed.
  [[nodiscard]] virtual std::uint64_t consumed() const = 0;
  virtual void has_failed(const Status& why) = 0;
  /// The payload of a message that was sent and not consumed, if it lies in the program's memory.
  [[nodiscard]] virtual std::optional<ibv_sge> lent(std::uint64_t message,
                                                    const VerbsDevice& device) const = 0;
  /// The device's key of the program's memory, for the peer to write there.
  [[nodiscard]] virtual std::uint32_t landing_key(const std::byte* into,
                                                  const VerbsDevice& device) const = 0;

  VerbsReceiver(const VerbsReceiver&) = delete;
  VerbsReceiver& operator=(const VerbsReceiver&) = delete;

 protected:
  VerbsReceiver() = default;
  ~VerbsReceiver() = default;
};

/// Every message goes through one pair. When a pair breaks, both ends break theirs, and tell each
/// other what has arrived through it. Nothing old can arrive from then on, so the sender sends the
/// rest again, through another pair, or through the same once it was begun anew. So each message
/// arrives once. A pair is begun anew when the ports of both ends are active. The connection fails
/// if it has no pair for as long as the patience of VerbsOptions.
class VerbsWays {
 public:
  VerbsWays(VerbsReceiver& receiver, const VerbsOptions& options, const VerbsSlots& slots,
            std::uint32_t credits, bool& attention);
  VerbsWays(const VerbsWays&) = delete;
  VerbsWays& operator=(const VerbsWays&) = delete;

  // --- connecting
  /// One more pair, whose completions have this id.
  Status add(const VerbsRail& rail, std::uint32_t id);
  Result<VerbsMeeting> meeting();
  Status meet(const VerbsMeeting& there, Fd socket);
  /// Can the peer receive?
  [[nodiscard]] bool open() const { return opened_; }

  // --- messages, by their numbers
  /// Is there a pair for one more?
  [[nodiscard]] bool has_room();
  /// Sends what lies in its slot.
  void send(std::uint64_t message);
  /// Writes down where this end wants a message, for `tell`.
  void note_landing(const VerbsLandings::Place& place);
  /// Is there a pair to `tell_landings`?
  [[nodiscard]] bool may_tell() { return way_with_room(kTellWork) != nullptr; }
  /// Tells the peer where this end wants `count` messages, whose hints lie in a row. What is lost
  /// with its pair is not told again: without it a message goes to a slot.
  void tell_landings(std::uint64_t first, std::uint64_t count);
  /// Tells the peer, as soon as it can, how much this end has consumed.
  void say_consumed();
  /// Devices see to the arrival of all before `end`. False: this end may have to send some again.
  [[nodiscard]] bool given(std::uint64_t end) const;
  /// All before `end` have arrived. False: if they have, it will be known soon.
  bool arrived(std::uint64_t end);
  /// The peer has consumed all before `end`, so they have arrived.
  void forget_before(std::uint64_t end);
  /// The next one that this end waits for has come, if it has `bytes`.
  [[nodiscard]] bool has_stamp(std::uint64_t message, std::size_t bytes) const {
    return slots_.has_stamp(message, bytes, stamp_of(secret_in_, era_in_, message));
  }

  // --- for the transport's progress
  void complete(const ibv_wc& completion);
  /// For what is not due in every round: words of the peer, ports, patience.
  void look();
  /// Is there something to do that no completion tells of?
  [[nodiscard]] bool wants_look() const { return troubled_ || owes_ || !again_.empty(); }
  /// The peer has gone, in order or not.
  [[nodiscard]] bool peer_gone() const { return control_.ended(); }
  [[nodiscard]] const VerbsControl& control() const { return control_; }
  /// Ends what is under way: devices read and write no more for this connection.
  void stop();
  /// Lets the peer know that this end has failed.
  void hang_up() { control_ = {}; }
  /// Tells the peer that this end goes in order.
  void close();
  [[nodiscard]] const VerbsPair& pair(std::size_t i) const { return *ways_[i].pair; }
  [[nodiscard]] std::size_t pairs() const { return ways_.size(); }

 private:
  struct Sent {
    std::uint64_t message = 0;
    std::uint64_t place = 0;  ///< among the messages of this life of the pair
    std::uint64_t work = 0;   ///< the pair's number of it
  };
  struct Way {
    std::unique_ptr<VerbsPair> pair;
    VerbsMeeting::Pair there;
    std::uint32_t id = 0;
    std::uint32_t life = 0;
    std::uint64_t sent = 0, arrived = 0;  ///< messages in this life
    std::vector<Sent> under_way;
    bool usable = false;  ///< the peer can receive
    // While it is broken:
    std::uint64_t since = 0;     ///< it was broken off
    std::uint64_t next_try = 0;  ///< to begin it anew
    bool told_broken = false, heard_broken = false, settled = false;
    bool told_anew = false, heard_anew = false;
    VerbsWord heard;  ///< its word `broken`
    std::string why;
  };

  /// What a message takes of a pair; and with room for a word of what was consumed, places, and a
  /// message.
  static constexpr std::uint32_t kMessageWork = 2, kTellWork = 2, kMostWork = 4;

  static std::uint64_t stamp_of(std::uint64_t secret, std::uint32_t era, std::uint64_t message);
  static std::uint64_t hint_secret(std::uint64_t secret, std::uint64_t message);
  Way* way_with_room(std::uint32_t work);
  void post(Way& way, std::uint64_t message);
  void send_again();
  void break_off(Way& way, const std::string& why);
  void tell_broken(Way& way);
  void settle(Way& way);
  bool finds_port_down(Way& way);
  void begin_anew(Way& way);
  void open_anew(Way& way);
  void hear(const VerbsWord& word);
  void lose_patience(std::uint64_t now);
  [[nodiscard]] VerbsWord word(VerbsWord::Kind kind, const Way& way) const;

  VerbsReceiver& receiver_;
  const VerbsOptions& options_;
  const VerbsSlots& slots_;
  const std::uint32_t credits_;
  bool& attention_;  ///< set when it wants to be looked at
  std::vector<Way> ways_;
  VerbsControl control_;
  std::uint64_t slots_there_ = 0;
  std::uint64_t secret_in_ = 0, secret_out_ = 0;
  std::uint32_t era_in_ = 0, era_out_ = 0;
  std::size_t turn_ = 0;              ///< the way that sends next
  std::vector<std::uint64_t> again_;  ///< messages to be sent again, ascending
  bool opened_ = false;
  bool owes_ = false;             ///< the peer is to be told how much was consumed
  bool troubled_ = false;         ///< some way is not usable
  std::uint64_t trouble_ns_ = 0;  ///< since when no pair has proved good; 0: none has failed
};

}  // namespace coll
