// SPDX-License-Identifier: Apache-2.0
// The watch's thread, the part that hub and spokes share.
#pragma once
#include <poll.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/frame_link.hpp"
#include "sys/clock.hpp"
#include "watch/places_report.hpp"
#include "watch/watch.hpp"
#include "watch/watch_words.hpp"

namespace coll {

// How long the watch waits at most.
inline constexpr auto kVerdictTime = std::chrono::seconds(2);  // for the hub's verdict
inline constexpr auto kGatherTime = std::chrono::seconds(1);   // for the ranks' places
inline constexpr auto kLeaveTime = std::chrono::seconds(2);    // for the others to know
inline constexpr auto kPairGrace = std::chrono::seconds(1);    // for data of a peer that has left
inline constexpr auto kTick = std::chrono::seconds(1);         // between two looks at the board
inline constexpr auto kLeftTick = std::chrono::milliseconds(100);  // the same once a rank has left

/// The public functions run on any thread: they post a request, wake the watch's thread and wait
/// for what comes of it. All hooks, and all links, belong to the watch's thread alone.
class WatchThread : public Watch {
 public:
  [[nodiscard]] Status failure() const override;
  Status report(const Status& failure) noexcept override;
  Status report_deadline(const Call& call, double waited_s, std::string awaited) override;
  Status report_mismatch(const Call& call, Rank peer, const Status& found) override;
  void doubt(const Call& call) noexcept override;
  void start_leaving() noexcept override;
  void leave() noexcept override;

 protected:
  WatchThread(Meeting meeting, std::vector<Member> members, const CallBoard& board);
  /// Begins the thread; a meeting of one rank needs none. Where it cannot, the final class tells
  /// the others, who may have begun theirs: to them a closed socket would look like a death.
  Status start();
  /// Ends it at once. Each final class calls it in its destructor: the hooks must be there until
  /// then.
  void stop();

  // --- hooks
  virtual void on_report(const Status& failure) = 0;
  virtual void on_question(const Question& question) = 0;
  virtual void on_leave(const Departure& departure) = 0;
  virtual void on_frame(Rank from, WatchWord word, const std::string& frame) = 0;
  virtual void on_closed(Rank from) = 0;
  /// Called in every turn; says when to be called again at the latest.
  virtual Deadline on_time(Deadline now) = 0;

  // --- what hooks use
  /// The verdict, the first one for good; wakes whoever waits for it.
  void conclude(const Status& verdict);
  [[nodiscard]] bool concluded() const { return has_failed(); }
  [[nodiscard]] Whereabouts place(const Question& question) const;
  void note_departure(const Departure& departure);
  void finish() { finishing_ = true; }  ///< the thread ends after this turn
  [[nodiscard]] FrameLink& link(Rank rank) { return links_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Status lost(Rank rank) const;
  [[nodiscard]] std::string name(Rank rank) const { return member_text(rank, members_); }

  const Rank rank_;
  const Rank size_;
  const Rank hub_;
  const std::vector<Member> members_;
  std::vector<FrameLink> links_;  ///< by rank; empty where there is none (any more)

 private:
  void run() noexcept;
  void turn();
  void hear(Rank from);
  void take_requests();
  void look_at_board(Deadline now);
  void check_departures(Deadline now);
  void survive(const Status& failure) noexcept;
  void wake();
  Status ask(const Question& question);
  void wait_for_verdict(std::unique_lock<std::mutex>& lock);

  const CallBoard& board_;
  Fd event_;
  std::thread thread_;

  mutable std::mutex mutex_;  // guards the next seven
  std::condition_variable changed_;
  Status verdict_;
  // Requests to the thread. The first failure is the one that counts, and a verdict answers every
  // question, so there is room for what matters without allocating any.
  Status reported_;
  std::optional<Question> question_;
  bool leaving_ = false;
  bool stop_ = false;
  bool ended_ = false;

  // The watch's thread only.
  bool finishing_ = false;
  bool leave_begun_ = false;
  int failures_survived_ = 0;
  std::vector<pollfd> polled_;  ///< the event, then links_ in order
  CallBoard::Reading seen_;     ///< at the last look
  Deadline seen_since_;
  Deadline next_look_;
  std::vector<Departure> departures_;
};

Result<std::unique_ptr<Watch>> start_watch_hub(Meeting meeting, std::vector<Member> members,
                                               const CallBoard& board);
Result<std::unique_ptr<Watch>> start_watch_spoke(Meeting meeting, std::vector<Member> members,
                                                 const CallBoard& board);

}  // namespace coll
