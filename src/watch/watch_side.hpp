// SPDX-License-Identifier: Apache-2.0
// A rank's side of the watch, the part that hub and spokes share.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/topic.hpp"
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

/// The public functions run on any thread: they post a request, ask for a turn and wait for what
/// comes of it. All hooks run for the topic, on the process's control thread.
class WatchSide : public Watch, Topic::Handler {
 public:
  [[nodiscard]] Status failure() const override;
  Status report(const Status& failure) noexcept override;
  Status report_deadline(const Call& call, double waited_s, std::string awaited) override;
  Status report_mismatch(const Call& call, Rank peer, const Status& found) override;
  bool doubt(const Call& call) noexcept override;
  void start_leaving() noexcept override;
  void leave() noexcept override;

 protected:
  WatchSide(std::unique_ptr<Topic> topic, std::vector<Member> members, const CallBoard& board);
  /// Each final class calls it in its destructor: the hooks must be there until then.
  void stop() {
    if (topic_) topic_->end();  // a hook may be running, and needs the pointer
    topic_.reset();
  }

  // --- hooks
  virtual void on_report(const Status& failure) = 0;
  virtual void on_question(const Question& question) = 0;
  virtual void on_leave(const Departure& departure) = 0;
  virtual void on_word(Rank from, WatchWord word, std::string_view frame) = 0;
  /// Called in every turn, like the topic's on_closed where a way ends; says when to be called
  /// again at the latest.
  virtual Deadline on_turn(Deadline now) = 0;

  // --- what hooks use
  /// The verdict, the first one for good; wakes whoever waits for it.
  void conclude(const Status& verdict);
  [[nodiscard]] bool concluded() const { return has_failed(); }
  [[nodiscard]] Whereabouts place(const Question& question) const;
  void note_departure(const Departure& departure);
  void finish();  ///< the watch has ended
  [[nodiscard]] Topic& topic() { return *topic_; }
  [[nodiscard]] Status lost(Rank rank, Topic::Ending why) const;
  [[nodiscard]] std::string name(Rank rank) const { return member_text(rank, members_); }

  const Rank rank_;
  const Rank size_;
  const Rank hub_;
  const std::vector<Member> members_;

 private:
  friend Result<std::unique_ptr<Watch>> start_watch(std::unique_ptr<Topic> topic,
                                                    std::vector<Member> members,
                                                    const CallBoard& board);
  void on_frame(Rank from, std::string_view frame) final;
  Deadline on_time(Deadline now) final;
  void on_failure(const Status& failure) noexcept final;
  void take_requests();
  void look_at_board(Deadline now);
  void check_departures(Deadline now);
  Status ask(const Question& question);
  void wait_for_verdict(std::unique_lock<std::mutex>& lock);

  const CallBoard& board_;
  std::unique_ptr<Topic> topic_;  ///< null: one rank alone

  mutable std::mutex mutex_;  // guards the next six
  std::condition_variable changed_;
  Status verdict_;
  // Requests. The first failure is the one that counts, and a verdict answers every question, so
  // there is room for what matters without allocating any.
  Status reported_;
  std::optional<Question> question_;
  bool leaving_ = false;
  bool ended_ = false;

  // The hooks' only.
  bool finished_ = false;
  bool leave_begun_ = false;
  int failures_survived_ = 0;
  CallBoard::Reading seen_;  ///< at the last look
  Deadline seen_since_;
  Deadline next_look_;
  std::vector<Departure> departures_;
};

std::unique_ptr<WatchSide> make_watch_hub(std::unique_ptr<Topic> topic, std::vector<Member> members,
                                          const CallBoard& board);
std::unique_ptr<WatchSide> make_watch_spoke(std::unique_ptr<Topic> topic,
                                            std::vector<Member> members, const CallBoard& board);

}  // namespace coll
