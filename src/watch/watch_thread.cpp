// SPDX-License-Identifier: Apache-2.0
// The watch's loop, and how other threads talk to it.
#include "watch/watch_thread.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>

#include "sys/own_thread.hpp"

namespace coll {
namespace {

/// So many turns may end for want of memory before the watch gives up.
constexpr int kFailuresSurvived = 8;

/// A host that vanishes closes nothing: the kernel asks, and gives up after about ten seconds.
void notice_dead_hosts(int fd) {
  const int yes = 1;
  const int idle_s = 5;
  const int between_s = 2;
  const int times = 3;
  const unsigned unanswered_ms = 10000;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

}  // namespace

WatchThread::WatchThread(Meeting meeting, std::vector<Member> members, const CallBoard& board)
    : rank_(meeting.rank),
      size_(meeting.size),
      hub_(meeting.hub),
      members_(std::move(members)),
      board_(board),
      seen_since_(Clock::now()),
      next_look_(seen_since_) {
  for (Fd& fd : meeting.links) {
    if (fd) notice_dead_hosts(fd.get());
    links_.emplace_back(std::move(fd), kWatchFrameLimit);
  }
}

Status WatchThread::start() {
  if (size_ == 1) {
    ended_ = true;
    return {};
  }
  event_ = Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event_) return system_failure("watch: making an eventfd", errno);
  COLL_ASSIGN(thread_, start_thread("coll-watch", "that watches the ranks", [this] { run(); }));
  return {};
}

void WatchThread::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void WatchThread::wake() {
  const std::uint64_t one = 1;
  // It can only fail when the thread is about to wake anyway: the counter is full.
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof one);
}

// --- from any thread

Status WatchThread::failure() const {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

Status WatchThread::report(const Status& failure) noexcept {
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

Status WatchThread::report_deadline(const Call& call, double waited_s, std::string awaited) {
  Question question;
  question.asker = rank_;
  question.call = call;
  question.waited_s = waited_s;
  question.found = std::move(awaited);
  return ask(question);
}

Status WatchThread::report_mismatch(const Call& call, Rank peer, const Status& found) {
  Question question;
  question.asker = rank_;
  question.call = call;
  question.reason = Question::Reason::mismatch;
  question.peer = peer;
  question.found = found.text();
  return ask(question);
}

void WatchThread::doubt(const Call& call) noexcept {
  const std::lock_guard lock(mutex_);
  if (!verdict_.ok() || ended_ || question_) return;
  question_.emplace();
  question_->asker = rank_;
  question_->call = call;
  question_->reason = Question::Reason::doubt;
  wake();
}

Status WatchThread::ask(const Question& question) {
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

/// Has the thread see the request that was just noted.
void WatchThread::wait_for_verdict(std::unique_lock<std::mutex>& lock) {
  wake();
  // The thread itself keeps to the times above; this only guards against its being starved.
  changed_.wait_for(lock, 2 * kVerdictTime, [this] { return !verdict_.ok() || ended_; });
}

void WatchThread::start_leaving() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake();
}

void WatchThread::leave() noexcept {
  if (!thread_.joinable()) return;
  start_leaving();
  thread_.join();  // the thread keeps to kLeaveTime
}

// --- on the watch's thread

void WatchThread::run() noexcept {
  while (!finishing_) {
    try {
      turn();
    } catch (const std::exception&) {
      survive(status_of_exception());
    }
  }
  for (FrameLink& one : links_) one.hang_up();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

/// Memory ran out in the midst of a turn, and what the turn was about is lost: that is this rank's
/// failure. Where there is none even to say so, the links are closed, which tells the others.
void WatchThread::survive(const Status& failure) noexcept {
  if (++failures_survived_ > kFailuresSurvived) {
    finishing_ = true;
    conclude(failure);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (verdict_.ok() && reported_.ok()) reported_ = failure;
}

void WatchThread::turn() {
  take_requests();
  const Deadline now = Clock::now();
  look_at_board(now);
  const Deadline wanted = std::min(on_time(now), next_look_);
  if (finishing_) return;
  polled_.resize(1 + links_.size());  // allocates in the first turn
  polled_[0] = {event_.get(), POLLIN, 0};
  for (std::size_t i = 0; i < links_.size(); ++i) {
    polled_[i + 1] = links_[i] ? pollfd{links_[i].fd(), links_[i].events(), 0} : pollfd{-1, 0, 0};
  }
  const int ready = ::poll(polled_.data(), polled_.size(), poll_timeout(wanted));
  if (ready <= 0) return;
  if (polled_[0].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(event_.get(), &count, sizeof count);
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const short seen = polled_[i + 1].revents;
    // A hook may have closed the link meanwhile.
    if ((seen & POLLOUT) != 0 && links_[i]) links_[i].push();
    if ((seen & ~POLLOUT) != 0) hear(static_cast<Rank>(i));
  }
}

void WatchThread::hear(Rank from) {
  std::string frame;
  while (link(from)) {
    switch (link(from).receive(frame)) {
      case FrameLink::Got::nothing:
        return;
      case FrameLink::Got::frame:
        if (!frame.empty()) on_frame(from, static_cast<WatchWord>(frame[0]), frame);
        break;
      case FrameLink::Got::closed:
      case FrameLink::Got::garbage:
        link(from).hang_up();
        on_closed(from);
        return;
    }
  }
}

void WatchThread::take_requests() {
  Status reported;
  std::optional<Question> question;
  bool leave = false;
  {
    const std::lock_guard lock(mutex_);
    if (stop_) finishing_ = true;
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

void WatchThread::look_at_board(Deadline now) {
  if (now < next_look_) return;
  next_look_ = now + (departures_.empty() ? Clock::duration(kTick) : Clock::duration(kLeftTick));
  const CallBoard::Reading reading = board_.read();
  if (!(reading == seen_)) {
    seen_ = reading;
    seen_since_ = now;
  }
  if (!concluded() && !departures_.empty()) check_departures(now);
}

void WatchThread::note_departure(const Departure& departure) {
  departures_.push_back(departure);
  next_look_ = std::min<Deadline>(next_look_, Clock::now() + kLeftTick);
}

// A rank that left in order has done its part of every collective up to its last one. Whoever is in
// a later one waits for nothing: no need to sit out the deadline. A send or receive with it may
// still find its data on the way, for a moment.
void WatchThread::check_departures(Deadline now) {
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

void WatchThread::conclude(const Status& verdict) {
  const std::lock_guard lock(mutex_);
  if (!verdict_.ok()) return;
  verdict_ = verdict;
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

Whereabouts WatchThread::place(const Question& question) const {
  Whereabouts place;
  place.ticket = question.ticket;
  place.reading = board_.read();
  if (place.reading == seen_) {
    place.since_s = std::chrono::duration<double>(Clock::now() - seen_since_).count();
  }
  place.counterpart = question.asker == rank_ ? std::optional(question.call)
                                              : board_.counterpart(question.call, question.asker);
  // Of several calls that it is in, the one that the question is about.
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

Status WatchThread::lost(Rank rank) const {
  return coll::failed(Code::peer_lost,
                      name(rank) +
                          " is gone: its process was killed, crashed or ended in the "
                          "middle of a call, or its host cannot be reached",
                      "see that rank's output for the reason")
      .at_rank(rank);
}

Result<std::unique_ptr<Watch>> start_watch(Meeting meeting, std::vector<Member> members,
                                           const CallBoard& board) {
  return meeting.is_hub() ? start_watch_hub(std::move(meeting), std::move(members), board)
                          : start_watch_spoke(std::move(meeting), std::move(members), board);
}

}  // namespace coll
