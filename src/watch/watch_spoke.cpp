// SPDX-License-Identifier: Apache-2.0
// The watch of a rank that is not the hub.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "watch/watch_side.hpp"

namespace coll {
namespace {

class WatchSpoke final : public WatchSide {
 public:
  WatchSpoke(std::unique_ptr<Topic> topic, std::vector<Member> members, const CallBoard& board)
      : WatchSide(std::move(topic), std::move(members), board) {}
  ~WatchSpoke() override { stop(); }

 private:
  void on_report(const Status& failure) override;
  void on_question(const Question& question) override;
  void on_leave(const Departure& departure) override;
  void on_word(Rank from, WatchWord word, std::string_view frame) override;
  void on_closed(Rank from, Topic::Ending why) override;
  Deadline on_turn(Deadline now) override;

  /// Waits for the hub's verdict; `own` is what this rank says without one.
  void expect_verdict(Status own);
  /// What this rank knows by itself.
  Status own_view(const Question& question) const;
  void conclude_alone();

  std::optional<Status> own_;  ///< while the hub's verdict is awaited
  Deadline verdict_until_;
  bool hub_left_ = false;
  std::optional<Deadline> leaving_until_;
};

void WatchSpoke::expect_verdict(Status own) {
  if (own_) return;
  own_ = std::move(own);
  verdict_until_ = Clock::now() + kVerdictTime;
  if (!topic().open(hub_)) conclude_alone();
}

void WatchSpoke::conclude_alone() {
  Failure failure = *own_->failure();
  failure.what += " (the hub, " + name(hub_) + (hub_left_ ? ", has left)" : ", does not answer)");
  own_.reset();
  conclude(Status(std::move(failure)));
}

Status WatchSpoke::own_view(const Question& question) const {
  std::vector<RankPlace> places(static_cast<std::size_t>(size_));
  places[static_cast<std::size_t>(rank_)].place = place(question);
  Failure failure = *places_report(question, places, members_).failure();
  const bool mismatch = question.reason == Question::Reason::mismatch;
  if (mismatch) {
    failure.what = "in " + question.call.text() + ", rank " + std::to_string(question.asker) +
                   " found a message of another call from " + name(question.peer) + ": " +
                   question.found;
  } else {
    char waited[32];
    std::snprintf(waited, sizeof waited, "%.1f s", question.waited_s);
    failure.what = "rank " + std::to_string(question.asker) + " waited " + waited + " in " +
                   question.call.text() + "; where the others are is not known";
  }
  failure.rank = mismatch ? question.peer : hub_;
  failure.hint = "see whether the hub's process is stopped, or its host overloaded or gone";
  return Status(std::move(failure));
}

void WatchSpoke::on_report(const Status& failure) {
  if (concluded()) return;
  topic().send(hub_, pack_report(failure));
  expect_verdict(failure);
}

void WatchSpoke::on_question(const Question& question) {
  if (concluded()) return;
  topic().send(hub_, pack_question(question));
  if (question.reason != Question::Reason::doubt) expect_verdict(own_view(question));
}

void WatchSpoke::on_leave(const Departure& departure) {
  leaving_until_ = Clock::now() + kLeaveTime;
  topic().send(hub_, pack_left(departure));
}

void WatchSpoke::on_word(Rank from, WatchWord word, std::string_view frame) {
  switch (word) {
    case WatchWord::verdict:
      if (const auto verdict = read_report(frame)) {
        own_.reset();
        return conclude(*verdict);
      }
      break;
    case WatchWord::where:
      if (const auto question = read_question(frame)) {
        return topic().send(from, pack_place(place(*question)));
      }
      break;
    case WatchWord::left:
      if (const auto left = read_left(frame); left && left->rank >= 0 && left->rank < size_) {
        if (left->rank != rank_) note_departure(*left);
        if (left->rank == rank_) finish();
        if (left->rank == hub_) {
          hub_left_ = true;
          topic().hang_up(hub_);  // the hub waits for this
          if (own_) conclude_alone();
        }
        return;
      }
      break;
    case WatchWord::report:
    case WatchWord::question:
    case WatchWord::place:
      break;
  }
  conclude(lost(from, Topic::Ending::senseless));
}

void WatchSpoke::on_closed(Rank from, Topic::Ending why) {
  if (hub_left_) return;  // in order, before this rank listened
  // All ranks see this by themselves, and say the same of it.
  own_.reset();
  if (!leaving_until_) conclude(lost(from, why));
}

Deadline WatchSpoke::on_turn(Deadline now) {
  if (own_ && now >= verdict_until_) conclude_alone();
  if (leaving_until_ && (!topic().open(hub_) || now >= *leaving_until_)) finish();
  Deadline next = leaving_until_.value_or(Deadline::max());
  if (own_) next = std::min(next, verdict_until_);
  return next;
}

}  // namespace

std::unique_ptr<WatchSide> make_watch_spoke(std::unique_ptr<Topic> topic,
                                            std::vector<Member> members, const CallBoard& board) {
  return std::make_unique<WatchSpoke>(std::move(topic), std::move(members), board);
}

}  // namespace coll
