// SPDX-License-Identifier: Apache-2.0
// Dialling, greeting, claiming, waiting for the hub's word.
#include "rendezvous/seeker.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "sys/net/socket.hpp"

namespace coll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kDialTime = seconds(5);
constexpr auto kAnswerTime = seconds(3);  // a greeting, or the answer to a claim
// While nobody listens. Ranks that make one more communicator come within a millisecond.
constexpr auto kFirstPause = milliseconds(2), kLongestPause = milliseconds(250);
// Where somebody answers, but does not let it in.
constexpr auto kFirstRefusedPause = milliseconds(10), kLongestRefusedPause = milliseconds(1000);

constexpr const char* kNoHub = "something else than a hub answers";
constexpr const char* kNoAnswer = "no answer";
constexpr const char* kSilent =
    "accepts, but says nothing: it is no hub, or the hub's process has not come to meet";
constexpr const char* kNoReply = "the hub does not answer the claim";
constexpr const char* kOtherKey = "a hub, but of another job or with another COLL_SECRET";
constexpr const char* kNoKey = "it does not know the key of this job";

std::string error_text(const Status& status) {
  const int error = status.failure()->error;
  return error != 0 ? std::strerror(error)
                    : status.failure()->what;  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace

Seeker::Seeker(Claimant me, Rank hub)
    : me_(std::move(me)), hub_(hub), random_(std::hash<std::string>()(me_.instance)) {}

void Seeker::aim(std::vector<NetAddress> addresses, std::string key) {
  const bool same = key == key_ && std::ranges::equal(addresses, attempts_, {}, {},
                                                      [](const Attempt& a) { return a.address; });
  if (same) return;
  attempts_.clear();
  admitted_ = false;
  key_ = std::move(key);
  for (const NetAddress& address : addresses) {
    Attempt attempt;
    attempt.address = address;
    attempt.pause = kFirstPause;
    attempt.due = Clock::now();
    attempts_.push_back(std::move(attempt));
  }
}

void Seeker::fail(Attempt& attempt, std::string why) {
  const bool answered = attempt.state != State::idle && attempt.state != State::dialing;
  if (attempt.state == State::admitted) admitted_ = false;
  if (why != attempt.last && log_enabled(LogLevel::debug)) {
    log(LogLevel::debug, "rendezvous: " + attempt.address.text() + ": " + why);
  }
  attempt.last = std::move(why);
  attempt.spent = {};
  attempt.link.close();
  attempt.state = State::idle;
  if (answered) attempt.pause = std::max(attempt.pause, kFirstRefusedPause);
  // Thousands of ranks that were refused together shall not come again together.
  std::uniform_int_distribution<milliseconds::rep> jitter(attempt.pause.count() / 2,
                                                          attempt.pause.count());
  attempt.due = Clock::now() + milliseconds(jitter(random_));
  attempt.pause = std::min(attempt.pause * 2, answered ? kLongestRefusedPause : kLongestPause);
}

const char* Seeker::trouble_at(const Attempt& attempt) {
  return attempt.state == State::dialing    ? kNoAnswer
         : attempt.state == State::greeting ? kSilent
         : attempt.state == State::claimed  ? kNoReply
                                            : attempt.last.c_str();
}

void Seeker::dial_due(Deadline now) {
  for (Attempt& attempt : attempts_) {
    if (attempt.due > now || attempt.state == State::greeted || attempt.state == State::admitted) {
      continue;
    }
    if (attempt.state != State::idle) {
      fail(attempt, trouble_at(attempt));
      continue;
    }
    if (admitted_) continue;
    Result<Fd> fd = begin_dial(attempt.address);
    if (!fd.ok()) {
      fail(attempt, error_text(fd.status()));
      if (fd.status().code() == Code::out_of_resources) attempt.spent = fd.status();
      continue;
    }
    attempt.link = FrameLink(*std::move(fd), kHandshakeLimit);
    attempt.state = State::dialing;
    attempt.due = now + kDialTime;
  }
}

void Seeker::claim_one() {
  for (const Attempt& attempt : attempts_) {
    if (attempt.state == State::claimed || attempt.state == State::admitted) return;
  }
  for (Attempt& attempt : attempts_) {
    if (attempt.state != State::greeted) continue;
    Result<std::string> nonce = random_bytes(kNonceBytes);
    if (!nonce.ok()) return fail(attempt, nonce.status().text());
    attempt.nonce = *std::move(nonce);
    attempt.link.send(
        pack_claim(me_, attempt.nonce, claim_proof(key_, attempt.hub_nonce, attempt.nonce, me_)));
    attempt.state = State::claimed;
    attempt.due = Clock::now() + kAnswerTime;
    return;
  }
}

void Seeker::hear_frame(Attempt& attempt, const std::string& frame,
                        std::optional<Result<Meeting>>& result) {
  if (attempt.state == State::greeting) {
    const auto greeting = read_greeting(frame);
    if (!greeting) return fail(attempt, kNoHub);
    if (greeting->version != kWireVersion) {
      return fail(attempt, "its library speaks wire version " + std::to_string(greeting->version) +
                               ", this one " + std::to_string(kWireVersion));
    }
    attempt.hub_nonce = greeting->nonce;
    attempt.state = State::greeted;
    attempt.due = Deadline::max();
    return;
  }
  if (attempt.state == State::claimed) {
    if (const auto refused = read_refusal(frame)) {
      attempt.of_key = *refused == Refused::key ? kOtherKey : nullptr;
      return fail(attempt, *refused == Refused::key ? kOtherKey
                           : *refused == Refused::version
                               ? "a hub, but of another version of the library"
                               : "a hub, but it did not understand the claim");
    }
    const auto proof = read_welcome(frame);
    if (!proof || !same_proof(*proof, welcome_proof(key_, attempt.hub_nonce, attempt.nonce))) {
      attempt.of_key = kNoKey;
      return fail(attempt, kNoKey);
    }
    attempt.link.send(pack_confirm());
    attempt.state = State::admitted;
    attempt.pause = kFirstPause;
    attempt.due = Deadline::max();
    admitted_ = true;
    for (Attempt& other : attempts_) {
      if (other.state == State::admitted) continue;
      other.link.close();
      other.state = State::idle;
    }
    if (log_enabled(LogLevel::info)) {
      log(LogLevel::info, "rendezvous: found the hub at " + attempt.address.text());
    }
    return;
  }
  if (attempt.state != State::admitted) return fail(attempt, "it talks out of turn");
  if (auto failure = read_failure(frame)) {
    result = Result<Meeting>(*std::move(failure));
    return;
  }
  const auto start = read_start(frame);
  if (!start || start->hub < 0 || start->hub >= me_.size || start->hub == me_.rank) {
    return fail(attempt, "the hub sent something that makes no sense");
  }
  Meeting meeting;
  meeting.rank = me_.rank;
  meeting.size = me_.size;
  meeting.hub = start->hub;
  meeting.one_network = start->one_network;
  name_job(key_, start->random, meeting.job);
  meeting.links.resize(static_cast<std::size_t>(me_.size));
  meeting.links[static_cast<std::size_t>(start->hub)] = attempt.link.take();
  result = Result<Meeting>(std::move(meeting));
}

void Seeker::hear(Attempt& attempt, std::optional<Result<Meeting>>& result) {
  if (attempt.state == State::dialing) {
    const Result<bool> connected = check_dial(attempt.link.fd());
    if (!connected.ok()) return fail(attempt, error_text(connected.status()));
    if (!*connected) return;
    // Dialling a free port of one's own host can, by chance, connect a socket with itself.
    if (local_address(attempt.link.fd()) == remote_address(attempt.link.fd())) {
      return fail(attempt, std::strerror(ECONNREFUSED));  // NOLINT(concurrency-mt-unsafe)
    }
    set_nodelay(attempt.link.fd());
    attempt.state = State::greeting;
    attempt.due = Clock::now() + kAnswerTime;
  }
  attempt.link.push();
  std::string frame;
  while (attempt.link && !result) {
    switch (attempt.link.receive(frame)) {
      case FrameLink::Got::frame:
        hear_frame(attempt, frame, result);
        break;
      case FrameLink::Got::nothing:
        return;
      case FrameLink::Got::closed:
        // It says what came of the meeting before it closes anything in order.
        if (attempt.state == State::admitted) result = Result<Meeting>(hub_died(attempt));
        return fail(attempt, "it closed the connection");
      case FrameLink::Got::garbage:
        return fail(attempt, kNoHub);
    }
  }
}

Status Seeker::hub_died(const Attempt& attempt) const {
  const std::string who =
      hub_ == kNoRank ? "the hub" : "the hub, rank " + std::to_string(hub_) + ",";
  return failed(Code::peer_lost,
                who + " at " + attempt.address.text() + " went away before all ranks were there",
                "see that rank's output for the reason")
      .at_rank(hub_);
}

std::optional<Result<Meeting>> Seeker::step(Deadline until) {
  std::optional<Result<Meeting>> result;
  do {
    dial_due(Clock::now());
    claim_one();
    Deadline wake = until;
    std::vector<pollfd> fds;
    std::vector<Attempt*> who;
    for (Attempt& attempt : attempts_) {
      if (attempt.state != State::idle || !admitted_) wake = std::min(wake, attempt.due);
      if (attempt.state == State::idle) continue;
      who.push_back(&attempt);
      fds.push_back({attempt.link.fd(),
                     attempt.state == State::dialing ? short{POLLOUT} : attempt.link.events(), 0});
    }
    if (::poll(fds.data(), fds.size(), poll_timeout(wake)) < 0 && errno != EINTR) {
      return Result<Meeting>(system_failure("rendezvous: waiting for the hub", errno));
    }
    for (std::size_t i = 0; i < who.size() && !result; ++i) {
      // Being admitted at one address closes the others.
      if (fds[i].revents != 0 && who[i]->link) hear(*who[i], result);
    }
    claim_one();
  } while (!result && Clock::now() < until);
  return result;
}

bool Seeker::has_failed_everywhere() const {
  return std::ranges::all_of(attempts_, [](const Attempt& one) { return one.pause > kFirstPause; });
}

Status Seeker::give_up() {
  for (Attempt& attempt : attempts_) {
    if (attempt.state != State::admitted) continue;
    attempt.link.send(pack_failure(failed(Code::deadline, "gave up")));
    const auto until = Clock::now() + seconds(1);
    while (admitted_ && Clock::now() < until) {
      if (auto result = step(until); result && !result->ok()) return result->status();
    }
    return failed(Code::deadline,
                  "the hub at " + attempt.address.text() +
                      " did not say in time that all ranks are there, nor who is missing",
                  "see the output of the other ranks");
  }
  return not_found("the hub went away");
}

Status Seeker::not_found(const std::string& source) const {
  std::string what = "rank " + std::to_string(me_.rank) + " found no hub (" + source + ")";
  std::string hint = "see whether the other ranks run, and whether this host can reach them";
  Code code = Code::unreachable;
  for (const Attempt& attempt : attempts_) {
    // What a hub has said once counts more than what the next try is waiting for.
    what += "; " + attempt.address.text() + ": " +
            (attempt.of_key != nullptr ? attempt.of_key : trouble_at(attempt));
    if (attempt.of_key == kOtherKey) {
      hint =
          "set the same COLL_SECRET, or none, on all ranks, and see that no other job uses this "
          "address";
    }
    if (!attempt.spent.ok()) {
      code = attempt.spent.code();
      hint = attempt.spent.failure()->hint;
    }
  }
  if (attempts_.empty()) what += "; no address is known yet";
  return failed(code, std::move(what), std::move(hint));
}

}  // namespace coll
