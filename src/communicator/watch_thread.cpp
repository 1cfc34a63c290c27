// SPDX-License-Identifier: Apache-2.0
// communicator/: what ties ranks together. This file: the watch's loop, and how other threads talk
// to it.
#include "communicator/watch_thread.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "sys/own_thread.hpp"

namespace coll {
namespace {

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

Status WatchThread::report(const Status& failure) {
  COLL_CHECK(!failure.ok(), "a success is no failure to report");
  Request request;
  request.failure = failure;
  return post_and_wait(std::move(request));
}

Status WatchThread::report_deadline(const Call& call, double waited_s) {
  Request request;
  request.kind = Request::Kind::question;
  request.question.asker = rank_;
  request.question.call = call;
  request.question.waited_s = waited_s;
  return post_and_wait(std::move(request));
}

Status WatchThread::report_mismatch(const Call& call, Rank peer, const Status& found) {
  Request request;
  request.kind = Request::Kind::question;
  request.question.asker = rank_;
  request.question.call = call;
  request.question.reason = Question::Reason::mismatch;
  request.question.peer = peer;
  request.question.found = found.text();
  return post_and_wait(std::move(request));
}

void WatchThread::doubt(const Call& call) {
  Request request;
  request.kind = Request::Kind::question;
  request.question.asker = rank_;
  request.question.call = call;
  request.question.reason = Question::Reason::doubt;
  const std::lock_guard lock(mutex_);
  if (!verdict_.ok() || ended_) return;
  requests_.push_back(std::move(request));
  wake();
}

Status WatchThread::post_and_wait(Request request) {
  bool ended = false;
  {
    std::unique_lock lock(mutex_);
    if (!verdict_.ok()) return verdict_;
    if (!ended_) {
      requests_.push_back(request);
      wake();
      // The thread itself keeps to the times above; this only guards against its being starved.
      changed_.wait_for(lock, 2 * kVerdictTime, [this] { return !verdict_.ok() || ended_; });
      if (!verdict_.ok()) return verdict_;
    }
    ended = ended_;
  }
  // One rank, or this one has left: its own word is all there is.
  std::vector<RankPlace> places(static_cast<std::size_t>(size_));
  if (request.kind == Request::Kind::question) {
    if (ended) places[static_cast<std::size_t>(rank_)].place = place(request.question);
    request.failure = places_report(request.question, places, members_);
  }
  conclude(request.failure);
  return failure();
}

void WatchThread::start_leaving() {
  if (!thread_.joinable()) return;
  Request request;
  request.kind = Request::Kind::leave;
  request.departure = {rank_, board_.read().collectives};
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(leaving_, true)) return;
    requests_.push_back(std::move(request));
  }
  wake();
}

void WatchThread::leave() {
  if (!thread_.joinable()) return;
  start_leaving();
  thread_.join();  // the thread keeps to kLeaveTime
}

// --- on the watch's thread

void WatchThread::run() {
  while (!finishing_) turn();
  for (FrameLink& one : links_) one.close();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void WatchThread::turn() {
  const Deadline now = Clock::now();
  look_at_board(now);
  const Deadline wanted = std::min(on_time(now), next_look_);
  if (finishing_) return;
  std::vector<pollfd> fds{{event_.get(), POLLIN, 0}};
  std::vector<Rank> ranks{kNoRank};
  for (Rank rank = 0; rank < size_; ++rank) {
    if (!link(rank)) continue;
    fds.push_back({link(rank).fd(), link(rank).events(), 0});
    ranks.push_back(rank);
  }
  const int ready = ::poll(fds.data(), fds.size(), poll_timeout(wanted));
  if (ready <= 0) return;
  for (std::size_t i = 1; i < fds.size(); ++i) {
    // A hook may have closed the link meanwhile.
    if ((fds[i].revents & POLLOUT) != 0 && link(ranks[i])) link(ranks[i]).push();
    if ((fds[i].revents & ~POLLOUT) != 0) hear(ranks[i]);
  }
  if (fds[0].revents != 0) take_requests();
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
        link(from).close();
        on_closed(from);
        return;
    }
  }
}

void WatchThread::take_requests() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(event_.get(), &count, sizeof count);
  std::vector<Request> requests;
  {
    const std::lock_guard lock(mutex_);
    if (stop_) finishing_ = true;
    requests.swap(requests_);
  }
  for (const Request& request : requests) {
    switch (request.kind) {
      case Request::Kind::report:
        on_report(request.failure);
        break;
      case Request::Kind::question:
        on_question(request.question);
        break;
      case Request::Kind::leave:
        on_leave(request.departure);
        break;
    }
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
  if (!concluded() && !departures_.empty()) check_departures(reading, now);
}

void WatchThread::note_departure(const Departure& departure) {
  departures_.push_back(departure);
  next_look_ = std::min<Deadline>(next_look_, Clock::now() + kLeftTick);
}

// A rank that left in order has done its part of every collective up to its last one. Whoever is in
// a later one waits for nothing: no need to sit out the deadline. A send or receive with it may
// still find its data on the way, for a moment.
void WatchThread::check_departures(const CallBoard::Reading& reading, Deadline now) {
  if (!reading.inside) return;
  const Call& call = reading.call;
  for (const Departure& gone : departures_) {
    const bool hopeless = call.is_pair() ? call.root == gone.rank && now - seen_since_ > kPairGrace
                                         : call.sequence > gone.collectives;
    if (!hopeless) continue;
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

Place WatchThread::place(const Question& question) const {
  Place place;
  place.ticket = question.ticket;
  place.reading = board_.read();
  if (place.reading == seen_) {
    place.since_s = std::chrono::duration<double>(Clock::now() - seen_since_).count();
  }
  place.counterpart = question.asker == rank_ ? std::optional(question.call)
                                              : board_.counterpart(question.call, question.asker);
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
