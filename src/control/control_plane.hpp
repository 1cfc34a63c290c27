// SPDX-License-Identifier: Apache-2.0
// The star that ranks keep after they have met, for all communicators that ride on it.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "control/control_thread.hpp"
#include "control/topic.hpp"
#include "rendezvous/frame_link.hpp"
#include "rendezvous/rendezvous.hpp"

namespace coll {

/// This rank's end of a star. Every frame on it names its topic: a communicator of ranks of the
/// star, with the hub among them. So the hub reaches all members directly, and a topic loses its
/// star only with one of its own ranks.
///
/// The plane lives as long as a topic, or whoever is about to open one. A peer that is done with
/// all of its topics closes its socket; topics that it has not hung up see its death.
class ControlPlane final : ControlThread::Sockets,
                           public std::enable_shared_from_this<ControlPlane> {
 public:
  static constexpr std::uint64_t kFirstTopic = 0;  ///< of all ranks that met

  /// Takes the sockets of a meeting. They are silent until `begin`.
  explicit ControlPlane(Meeting meeting);
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;
  ~ControlPlane();

  /// Has the process's thread serve it. Where that fails, `tell` still works.
  Status begin();
  /// Sends a frame of the first topic to all that this rank has a socket to, once.
  void tell(std::string_view frame);

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] Rank size() const { return static_cast<Rank>(links_.size()); }
  [[nodiscard]] Rank hub() const { return hub_; }
  /// All ranks are in one network namespace of one host.
  [[nodiscard]] bool one_network() const { return one_network_; }
  /// The secret name of the topic's communicator.
  [[nodiscard]] std::array<std::uint64_t, 2> job_of(std::uint64_t topic) const;

  /// A name for a topic that no other rank of the plane gives, nor this one again.
  std::uint64_t new_topic();
  /// A name that all ranks of a topic know without telling each other. `new_topic` never gives it.
  /// Once in 2^63 another topic has it; then `open` returns null.
  static std::uint64_t derived_topic(std::uint64_t topic, std::uint64_t number);
  /// This rank's end of a topic whose ranks are these of the plane, with the hub and this one among
  /// them. Frames that came before are there. Null where the number is in use: it may come from
  /// another rank.
  std::unique_ptr<Topic> open(std::uint64_t topic, std::vector<Rank> members);
  /// The same of all ranks.
  std::unique_ptr<Topic> open_first();
  /// This rank will not open the topic. Its peers among the members hear that it has hung up.
  void refuse(std::uint64_t topic, const std::vector<Rank>& members) noexcept;

 private:
  friend class Topic;
  /// What came for a topic that this rank has not opened yet.
  struct Held {
    Rank from;
    std::optional<Topic::Ending> end;  ///< nothing more comes
    std::string frame;
  };

  [[nodiscard]] std::mutex& mutex() { return thread_->mutex(); }
  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }
  void on_news(std::uint32_t socket, std::uint32_t events) noexcept override;
  void hear(Rank from);
  void take(Rank from, std::string frame);
  void hold(std::uint64_t topic, Held held);
  std::vector<Held> take_held(std::uint64_t topic) noexcept;
  void drop_held(Rank from);
  void post(Rank to, std::shared_ptr<const std::string> frame);
  void attend(Rank peer);
  void lose(Rank peer, Topic::Ending why);
  void shut(Rank peer) noexcept;
  void hang_up(Rank peer) noexcept;
  void survive(const Status& failure) noexcept;
  bool enter(Topic& topic);
  void leave(Topic& topic) noexcept;
  void retire() noexcept;

  const Rank rank_;
  const Rank hub_;
  const std::uint64_t job_[2];
  const bool one_network_;
  std::shared_ptr<ControlThread> thread_;

  // Guarded by the thread's mutex.
  std::vector<FrameLink> links_;         ///< by rank; empty where there is none (any more)
  std::vector<std::uint32_t> attended_;  ///< by rank: the events that the thread waits for
  std::unordered_map<std::uint64_t, Topic*> topics_;
  std::unordered_map<std::uint64_t, std::vector<Held>> held_;
  std::vector<std::size_t> held_bytes_;  ///< by rank: what its frames in there count for
  /// Topics that this rank has closed, and whose ends it has yet to hear.
  std::unordered_map<std::uint64_t, std::set<Rank>> ending_;
  std::uint32_t topics_named_ = 0;
  int failures_survived_ = 0;
};

}  // namespace coll
