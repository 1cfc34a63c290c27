// SPDX-License-Identifier: Apache-2.0
// Mail: how tagged sends and receives find each other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "communicator/calls/open_call.hpp"
#include "communicator/membership/membership.hpp"
#include "executor/wait_policy.hpp"
#include "transports/transport.hpp"

namespace coll {

/// The tagged calls of a rank from their start until each has met its other end.
///
/// A sender announces its message to the receiver. The receiver matches announcements and receives
/// by MPI's rules (MPI 4.1, section 3.5): a receive takes the first announcement that fits it, an
/// announcement goes to the first receive that it fits. So messages of one sender do not overtake
/// each other. Then the receiver grants the message, and both ends begin an ordinary send and recv.
/// On each pair of ranks these begin in the order of the grants, which both ends know.
///
/// Announcements and grants travel on connections of their own, which are opened when a call first
/// needs them. One thread at a time uses this.
class Mail {
 public:
  Mail(Rank rank, const Membership& membership) : rank_(rank), membership_(&membership) {}

  /// Takes a tagged call that may start, or a probe. If this fails or throws, the communicator has
  /// failed, and `take_all` gives the call back.
  Status post(OpenCall& call);
  /// One round: moves announcements and grants, and matches. `connect`: looks after connections
  /// that are being opened, too. True if anything moved.
  Result<bool> round(bool connect);
  /// Calls that have met their other end: as ordinary sends and receives they may begin now.
  [[nodiscard]] CallList& granted() { return granted_; }
  /// Calls that are over: probes, and messages of this rank to itself.
  [[nodiscard]] CallList& over() { return over_; }
  /// Gives a receive or probe back if it has not met a message.
  bool take_back(const OpenCall& call);
  /// Gives all calls back, since the communicator has failed.
  void take_all(CallList& into);

  /// Nothing is to be done here.
  [[nodiscard]] bool idle() const { return pending_ == 0; }
  /// The receives and probes that have not met a message.
  [[nodiscard]] CallList& receives() { return receives_; }
  /// Calls `see` with each call that has not met its other end, until it returns true.
  template <class See>
  bool any_of(See see);
  /// A peer without which the call cannot meet its other end, and which cannot be reached; or
  /// kNoRank.
  [[nodiscard]] Rank failed_peer(const OpenCall& call) const;
  /// Of the connection to a peer.
  [[nodiscard]] const Status& status_of(Rank rank) const { return peer(rank).status(); }
  /// For a person: what the call waits for.
  [[nodiscard]] std::string awaited(const OpenCall& call) const;
  void add_nap_ends(NapEnds& ends) const;
  /// To be asked in rounds in which nothing moves.
  [[nodiscard]] std::span<ProgressSource* const> sources() const { return sources_; }

 private:
  /// What travels.
  struct Envelope {
    enum class Kind : std::uint32_t { announcement, grant };
    std::uint64_t id = 0;  ///< the sender's number for the message, on this pair of ranks
    std::uint64_t count = 0;
    Kind kind = Kind::announcement;
    std::int32_t tag = 0;
    std::uint32_t type = 0;
    std::uint32_t reserved = 0;
  };
  struct Peer {
    std::unique_ptr<Connection> connection;
    Status refusal;  ///< why the last dial failed at once; then there is no connection
    [[nodiscard]] const Status& status() const {
      return connection ? connection->status() : refusal;
    }
    bool ready = false;
    int failed_dials = 0;
    std::deque<Envelope> unsent;
    Mark sent = 0;                ///< behind what was sent
    std::uint64_t announced = 0;  ///< messages to it
    CallList sends;               ///< announced, in this order
  };
  /// A message that no receive has taken.
  struct Message {
    Rank source = kNoRank;
    std::int32_t tag = 0;
    DataType type = DataType::int8;
    std::uint64_t count = 0;
    std::uint64_t id = 0;
    OpenCall* own = nullptr;  ///< the send, where this rank is the source
  };
  using Messages = std::list<Message>;

  [[nodiscard]] Peer& peer(Rank rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  Status open(Rank rank);
  void dial(Peer& to, Rank rank);
  Status announce(OpenCall& call);
  Status offer(Messages::iterator message);
  Status take(Rank from, const Envelope& envelope);
  Status match(OpenCall** receive, Messages::iterator message);
  void grant(Rank sender, std::uint64_t id);
  void flush(Peer& to);
  void set_unsent(bool unsent);

  const Rank rank_;
  const Membership* membership_;
  std::unique_ptr<Peer[]> peers_;         ///< by rank, once a call needs one
  std::vector<Rank> opened_;              ///< peers that were dialled
  std::size_t opening_ = 0;               ///< of these, how many may become ready
  std::vector<ProgressSource*> sources_;  ///< of the connections
  CallList coming_;                       ///< the call that is being posted
  CallList receives_;                     ///< in the order of their post
  CallList own_sends_;                    ///< to this rank itself
  Messages messages_;                     ///< in the order of their arrival
  bool unsent_ = false;                   ///< something may still have to be sent
  std::size_t pending_ = 0;  ///< calls in the lists above, and of peers; 1 if `unsent_`
  CallList granted_, over_;
};

template <class See>
bool Mail::any_of(See see) {
  const auto any_in = [&](CallList& calls) {
    for (OpenCall** at = calls.begin(); *at != nullptr; at = &(*at)->next) {
      if (see(**at)) return true;
    }
    return false;
  };
  if (any_in(receives_) || any_in(own_sends_)) return true;
  for (const Rank rank : opened_) {
    if (any_in(peer(rank).sends)) return true;
  }
  return false;
}

}  // namespace coll
