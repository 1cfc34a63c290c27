// SPDX-License-Identifier: Apache-2.0
// What hub and spokes do alike, and how other threads talk to them.
#include "watch/watch_side.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>

namespace coll {
namespace {

/// Memory may run out this many times before the watch gives up.
constexpr int kFailuresSurvived = 8;

/// The next look at a board: all of the process's in one turn of the thread.
Deadline next_tick(Deadline now, Deadline::duration period) {
  return now + (period - now.time_since_epoch() % period);
}

}  // namespace

WatchSide::WatchSide(std::unique_ptr<Topic> topic, std::vector<Member> members,
                     const CallBoard& board)
    : rank_(topic ? topic->rank() : 0),
      size_(topic ? topic->size() : 1),
      hub_(topic ? topic->hub() : 0),
      members_(std::move(members)),
      board_(board),
      topic_(std::move(topic)),
      ended_(!topic_),
      seen_since_(Clock::now()),
      next_look_(seen_since_) {}

// --- from any thread

Status WatchSide::failure() const {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

Status WatchSide::report(const Status& failure) noexcept {
  COLL_CHECK(!failure.ok(), "a success is no failure to report");
  {
    std::unique_lock lock(mutex_);
    if (verdict_.ok() && !ended_) {
      if (reported_.ok()) reported_ = failure;
      wait_for_verdict(lock);
    }
    if (!verdict_.ok()) return verdict_;
  }
  conclude(failure);  // one rank, or this one has left: its own word is all there is
  return this->failure();
}

Status WatchSide::report_deadline(const Call& call, double waited_s, std::string awaited) {
  Question question;
  question.asker = rank_;
  question.call = call;
  question.waited_s = waited_s;
  question.found = std::move(awaited);
  return ask(question);
}

Status WatchSide::report_mismatch(const Call& call, Rank peer, const Status& found) {
  Question question;
  question.asker = rank_;
  question.call = call;
  question.reason = Question::Reason::mismatch;
  question.peer = peer;
  question.found = found.text();
  return ask(question);
}

bool WatchSide::doubt(const Call& call) noexcept {
  const std::lock_guard lock(mutex_);
  if (!verdict_.ok() || ended_) return true;
  if (question_) return false;
  question_.emplace();
  question_->asker = rank_;
  question_->call = call;
  question_->reason = Question::Reason::doubt;
  topic_->ask();
  return true;
}

Status WatchSide::ask(const Question& question) {
  bool ended = false;
  {
    std::unique_lock lock(mutex_);
    if (verdict_.ok() && !ended_) {
      question_ = question;
      wait_for_verdict(lock);
    }
    if (!verdict_.ok()) return verdict_;
    ended = ended_;
  }
  // One rank, or this one has left: its own word is all there is.
  std::vector<RankPlace> places(static_cast<std::size_t>(size_));
  if (ended) places[static_cast<std::size_t>(rank_)].place = place(question);
  conclude(places_report(question, places, members_));
  return failure();
}

/// Has the request taken up that was just noted.
void WatchSide::wait_for_verdict(std::unique_lock<std::mutex>& lock) {
  topic_->ask();
  // The hooks keep to the times above; this only guards against their thread's being starved.
  changed_.wait_for(lock, 2 * kVerdictTime, [this] { return !verdict_.ok() || ended_; });
}

void WatchSide::start_leaving() noexcept {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  leaving_ = true;
  topic_->ask();
}

void WatchSide::leave() noexcept {
  start_leaving();
  std::unique_lock lock(mutex_);
  // The hooks keep to kLeaveTime.
  changed_.wait_for(lock, 2 * kLeaveTime, [this] { return ended_; });
}

// --- the hooks' part

Deadline WatchSide::on_time(Deadline now) {
  if (finished_) return Deadline::max();
  take_requests();
  look_at_board(now);
  const Deadline next = on_turn(now);
  return finished_ ? Deadline::max() : std::min(next, next_look_);
}

void WatchSide::on_frame(Rank from, std::string_view frame) {
  if (!frame.empty()) on_word(from, static_cast<WatchWord>(frame[0]), frame);
}

void WatchSide::finish() {
  if (std::exchange(finished_, true)) return;
  topic_->hang_up_all();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

/// A turn has failed, and its work is lost: this becomes the rank's failure. Where there is no
/// memory even to say so, the watch hangs up, which tells the others.
void WatchSide::on_failure(const Status& failure) noexcept {
  if (++failures_survived_ > kFailuresSurvived) {
    finish();
    conclude(failure);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (verdict_.ok() && reported_.ok()) reported_ = failure;
}

void WatchSide::take_requests() {
  Status reported;
  std::optional<Question> question;
  bool leave = false;
  {
    const std::lock_guard lock(mutex_);
    reported = std::exchange(reported_, {});
    question.swap(question_);
    leave = leaving_ && !leave_begun_;
  }
  if (!reported.ok()) on_report(reported);
  if (question) on_question(*question);
  if (leave) {
    on_leave({rank_, board_.read().collectives});
    leave_begun_ = true;
  }
}

void WatchSide::look_at_board(Deadline now) {
  if (now < next_look_) return;
  next_look_ =
      next_tick(now, departures_.empty() || concluded() ? Deadline::duration(kTick) : kLeftTick);
  const CallBoard::Reading reading = board_.read();
  if (!(reading == seen_)) {
    seen_ = reading;
    seen_since_ = now;
  }
  if (!concluded() && !departures_.empty()) check_departures(now);
}

void WatchSide::note_departure(const Departure& departure) {
  departures_.push_back(departure);
  next_look_ = std::min(next_look_, next_tick(Clock::now(), kLeftTick));
}

// A rank that left in order has done its part of every collective up to its last one. Whoever is in
// a later one waits for nothing: no need to sit out the deadline. A send or receive with it may
// still find its data on the way, for a moment.
void WatchSide::check_departures(Deadline now) {
  const std::vector<Call> calls = board_.open_calls();
  for (const Departure& gone : departures_) {
    const auto hopeless = [&](const Call& call) {
      return call.is_pair() ? call.root == gone.rank && now - seen_since_ > kPairGrace
                            : call.sequence > gone.collectives;
    };
    if (std::ranges::none_of(calls, hopeless)) continue;
    std::string what = name(gone.rank) + " left the communicator ";
    what += gone.collectives == 0 ? "before its first collective"
                                  : "after its collective #" + std::to_string(gone.collectives);
    on_report(
        coll::failed(Code::peer_lost, what + ", while others still call on it",
                     "all ranks must call the same operations before they destroy the communicator")
            .at_rank(gone.rank));
    return;
  }
}

void WatchSide::conclude(const Status& verdict) {
  const std::lock_guard lock(mutex_);
  if (!verdict_.ok()) return;
  verdict_ = verdict;
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

Whereabouts WatchSide::place(const Question& question) const {
  Whereabouts place;
  place.ticket = question.ticket;
  place.reading = board_.read();
  if (place.reading == seen_) {
    place.since_s = std::chrono::duration<double>(Clock::now() - seen_since_).count();
  }
  place.counterpart = question.asker == rank_ ? std::optional(question.call)
                                              : board_.counterpart(question.call, question.asker);
  // If the rank is in several calls, report the call that the question is about.
  if (question.asker == rank_) {
    if (place.reading.inside) place.reading.call = question.call;
  } else if (place.counterpart) {
    const std::vector<Call> calls = board_.open_calls();
    if (std::ranges::find(calls, *place.counterpart) != calls.end()) {
      place.reading.call = *place.counterpart;
    }
  }
  return place;
}

Status WatchSide::lost(Rank rank, Topic::Ending why) const {
  if (why == Topic::Ending::senseless) {
    return coll::failed(Code::internal, name(rank) + " sent something that makes no sense",
                        "use the same version of the library on all ranks")
        .at_rank(rank);
  }
  if (why == Topic::Ending::hung_up) {
    return coll::failed(Code::peer_lost,
                        name(rank) +
                            " is gone from the communicator: it ended it in the middle of a "
                            "call, or ran out of memory",
                        "see that rank's output for the reason")
        .at_rank(rank);
  }
  return coll::failed(Code::peer_lost,
                      name(rank) +
                          " is gone: its process was killed, crashed or ended in the "
                          "middle of a call, or its host cannot be reached",
                      "see that rank's output for the reason")
      .at_rank(rank);
}

Result<std::shared_ptr<ControlPlane>> start_control(Meeting meeting,
                                                    const std::vector<Member>& members) {
  const Rank rank = meeting.rank;
  const bool hub = meeting.is_hub();
  auto plane = std::make_shared<ControlPlane>(std::move(meeting));
  const Status begun = plane->begin();
  if (begun.ok()) return plane;
  Status failure = begun.with_context(member_text(rank, members)).at_rank(rank);
  plane->tell(hub ? pack_verdict(failure) : pack_report(failure));
  return failure;
}

Result<std::unique_ptr<Watch>> start_watch(std::unique_ptr<Topic> topic,
                                           std::vector<Member> members, const CallBoard& board) {
  Topic* const started = topic.get();
  const auto make = topic == nullptr || topic->is_hub() ? make_watch_hub : make_watch_spoke;
  std::unique_ptr<WatchSide> watch = make(std::move(topic), std::move(members), board);
  if (started != nullptr) started->hand_over(*watch);
  return std::unique_ptr<Watch>(std::move(watch));
}

}  // namespace coll
