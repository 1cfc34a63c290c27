// SPDX-License-Identifier: Apache-2.0
// The watch, which notices what calls cannot.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "control/control_plane.hpp"
#include "rendezvous/rendezvous.hpp"
#include "watch/call_board.hpp"

namespace coll {

/// What the watch says of a rank in messages: "rank 3 (pid 812 on host a)".
struct Member {
  std::string host;
  std::int64_t pid = 0;
};

/// A topic of the control plane. Sees the death of a peer (its socket closes), spreads failures so
/// that every rank ends with the same one, and answers "where are you?" for a rank whose deadline
/// passed, also while the rank itself computes. The calling thread polls `has_failed()`, one
/// relaxed load, in its wait loop.
class Watch {
 public:
  virtual ~Watch() = default;

  /// A failure has come, from here or elsewhere; `failure()` has it. Never goes back to false.
  [[nodiscard]] bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  [[nodiscard]] virtual Status failure() const = 0;
  /// What `has_failed()` reads, for loops that only know a flag.
  [[nodiscard]] const std::atomic<bool>& failed_flag() const { return failed_; }

  /// This rank failed: all ranks are told; the first failure that reaches the hub is the one all
  /// get. Waits (bounded, 2 s) for the hub's verdict and returns it, so that all ranks say the
  /// same. Needs no memory.
  virtual Status report(const Status& failure) noexcept = 0;

  /// This rank's deadline passed in `call`: gathers every rank's place (bounded, 2 s) and fails the
  /// communicator everywhere with the report "rank 3 is in …; ranks 0-2 in …; rank 5 does not
  /// answer". `awaited`: for what it waited, where there is more to say than the call.
  virtual Status report_deadline(const Call& call, double waited_s, std::string awaited) = 0;

  /// A message of another call came from `peer`: asks for both calls and fails the communicator
  /// everywhere with a mismatch that names them.
  virtual Status report_mismatch(const Call& call, Rank peer, const Status& found) = 0;

  /// This rank has waited suspiciously long in `call`, which has no tag. Returns at once; meanwhile
  /// the hub asks all ranks, or of a send or receive the peer. If one called something else as its
  /// call of that number, the communicator fails everywhere with a mismatch that names both. (Calls
  /// that differ need not exchange a message.) False: another question of this rank is under way,
  /// so ask again.
  virtual bool doubt(const Call& call) noexcept = 0;

  /// This rank leaves in order: that it hangs up is no death. Returns when the others know
  /// (bounded, 2 s). `start_leaving` is its first half: several watches can leave at once.
  virtual void start_leaving() noexcept = 0;
  virtual void leave() noexcept = 0;

 protected:
  std::atomic<bool> failed_{false};
};

/// Keeps a finished meeting's sockets as the ranks' control plane. Where this rank cannot, it tells
/// the others, which may watch already: to them a closed socket would look like a death.
Result<std::shared_ptr<ControlPlane>> start_control(Meeting meeting,
                                                    const std::vector<Member>& members);

/// Starts the watch of a topic, null for one rank alone. `board` must outlive it.
Result<std::unique_ptr<Watch>> start_watch(std::unique_ptr<Topic> topic,
                                           std::vector<Member> members, const CallBoard& board);

}  // namespace coll
