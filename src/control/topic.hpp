// SPDX-License-Identifier: Apache-2.0
// One communicator's share of a control plane.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "base/types.hpp"
#include "control/control_thread.hpp"

namespace coll {

class ControlPlane;

/// This rank's end of a topic: a star of its own, as it were, on the sockets of the plane. Ranks
/// are the topic's own. To each peer there is a way that either end hangs up, in each direction one
/// after the other, and which is closed for both where the peer's process is gone.
///
/// First frames wait until `receive` takes them. Then a handler takes over.
class Topic final : ControlThread::Task {
 public:
  /// Why nothing more comes from a peer.
  enum class Ending : std::uint8_t {
    hung_up,
    gone,       ///< its process, or the connection to it
    senseless,  ///< it sent what makes no sense, or more than it may
  };
  /// All are called on the process's control thread, or inside `hand_over`, with the mutex held.
  class Handler {
   public:
    virtual void on_frame(Rank from, std::string_view frame) = 0;
    virtual void on_closed(Rank from, Ending why) = 0;
    /// After each of the above, when somebody asked, and when it is time; says when that will be.
    virtual Deadline on_time(Deadline now) = 0;
    /// Memory ran out in one of the above, or as the topic's frames were read.
    virtual void on_failure(const Status& failure) noexcept = 0;

   protected:
    ~Handler() = default;
  };

  /// For the plane's `open`.
  Topic(std::shared_ptr<ControlPlane> plane, std::uint64_t id, std::vector<Rank> members);
  Topic(const Topic&) = delete;
  Topic& operator=(const Topic&) = delete;
  ~Topic();
  /// Hangs up on all. The handler is called no more. The destructor does so too.
  void end() noexcept;

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] Rank size() const { return static_cast<Rank>(members_.size()); }
  /// The plane's hub. It has a way to every rank, the others have one to it.
  [[nodiscard]] Rank hub() const { return hub_; }
  [[nodiscard]] bool is_hub() const { return rank_ == hub_; }
  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] const std::shared_ptr<ControlPlane>& plane() const { return plane_; }
  /// By rank: the plane's ranks.
  [[nodiscard]] const std::vector<Rank>& members() const { return members_; }

  /// A turn for the handler soon. From any thread; needs no memory.
  void ask() noexcept;
  /// From now on the handler hears what comes, and first of all what has come.
  void hand_over(Handler& handler);

  struct Inbound {
    Rank from = kNoRank;
    bool closed = false;  ///< nothing more comes from it, for the reason that follows
    std::string frame;
    Ending why = Ending::hung_up;
    /// Memory ran out here, so that a frame is lost, and all ways ended: `from` is this rank.
    Status failure{};
  };
  /// The next frame, in order of arrival; nothing if none comes in time. Before `hand_over`.
  std::optional<Inbound> receive(Deadline deadline);
  /// To all peers, as `send` would, holding the mutex for a peer at a time. Before `hand_over`.
  void tell_all(std::string_view frame);
  /// For callers that are no handler, and so do not hold the mutex.
  [[nodiscard]] std::mutex& mutex();

  // --- with the mutex held
  /// Is there a way from the peer?
  [[nodiscard]] bool open(Rank peer) const { return ways_[at(peer)].in == Way::In::open; }
  /// Queues a frame, if there is a way, and sends what goes now.
  void send(Rank to, std::string_view frame);
  void send_all(std::string_view frame);
  void hang_up(Rank peer);
  void hang_up_all() noexcept;

 private:
  friend class ControlPlane;
  struct Way {
    enum class In : std::uint8_t {
      closed,
      open,
      unheard,  ///< what still comes is dropped, until it ends
    } in = In::closed;
    bool out = false;
    std::size_t waiting = 0;  ///< what its frames in the inbox count for
  };

  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }
  [[nodiscard]] Rank rank_of(Rank member) const;
  Deadline on_turn(Deadline now) noexcept override;
  /// From the plane: `member` is one of its ranks.
  void take(Rank member, std::string frame);
  void lose(Rank member, Ending why);
  void close(Rank peer, Ending why);
  void deliver(Inbound inbound);
  void settle();
  void fail(const Status& failure) noexcept;
  void cut() noexcept;
  [[nodiscard]] std::set<Rank> unheard() const;

  const std::shared_ptr<ControlPlane> plane_;
  const std::uint64_t id_;
  const std::vector<Rank> members_;
  const Rank rank_;
  const Rank hub_;

  // Guarded by the mutex.
  std::vector<Way> ways_;  ///< by rank
  std::deque<Inbound> inbox_;
  std::condition_variable arrived_;
  Handler* handler_ = nullptr;
  bool entered_ = false;  ///< the plane knows it
  Status failure_;        ///< a frame is lost that `receive` should have had
};

}  // namespace coll
