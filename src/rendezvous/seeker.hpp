// SPDX-License-Identifier: Apache-2.0
// How a rank finds the hub.
#pragma once
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "rendezvous/frame_link.hpp"
#include "rendezvous/handshake.hpp"
#include "rendezvous/rendezvous.hpp"
#include "sys/net/net_address.hpp"

namespace coll {

/// Dials all addresses in parallel, again and again, until one of them is a hub that proves the
/// key; then waits there for the hub's word. Strangers that answer are told nothing. After each
/// failure an address is left alone for a while, twice as long each time.
class Seeker {
 public:
  /// `hub` is the hub's rank, where that is known before it says so.
  explicit Seeker(Claimant me, Rank hub = kNoRank);
  /// Whom to dial, and the key of the meeting; replaces what was there, unless it is the same.
  void aim(std::vector<NetAddress> addresses, std::string key);
  /// Works until `until` at most. The meeting, a failure (the hub's, or that the hub is gone that
  /// had let this rank in), or nothing yet.
  std::optional<Result<Meeting>> step(Deadline until);
  [[nodiscard]] bool aimed() const { return !attempts_.empty(); }
  /// No address has led to a hub at the first try.
  [[nodiscard]] bool has_failed_everywhere() const;
  /// A hub has let this rank in and waits for others.
  [[nodiscard]] bool admitted() const { return admitted_; }
  /// Tells the hub that this rank's time is up; what all ranks return, if the hub still says so.
  [[nodiscard]] Status give_up();
  /// Why it did not work: each address with its last refusal.
  [[nodiscard]] Status not_found(const std::string& source) const;

 private:
  enum class State { idle, dialing, greeting, greeted, claimed, admitted };
  struct Attempt {
    NetAddress address;
    State state = State::idle;
    FrameLink link;
    Deadline due;                       ///< idle: dial then; else: give up then
    std::chrono::milliseconds pause{};  ///< after the next failure; grows until it is let in
    std::string hub_nonce;
    std::string nonce;
    std::string last = "not tried yet";
    Status spent;                  ///< what this process lacked to dial, at the last try
    const char* of_key = nullptr;  ///< what a hub here has shown of its key, if it is another
  };
  [[nodiscard]] Status hub_died(const Attempt& attempt) const;
  /// What to say if it ended now.
  static const char* trouble_at(const Attempt& attempt);
  void dial_due(Deadline now);
  void fail(Attempt& attempt, std::string why);
  void claim_one();
  void hear(Attempt& attempt, std::optional<Result<Meeting>>& result);
  void hear_frame(Attempt& attempt, const std::string& frame,
                  std::optional<Result<Meeting>>& result);

  Claimant me_;
  Rank hub_;
  std::string key_;
  std::vector<Attempt> attempts_;
  bool admitted_ = false;
  std::minstd_rand random_;
};

}  // namespace coll
