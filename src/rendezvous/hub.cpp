// SPDX-License-Identifier: Apache-2.0
// The hub's loop: strangers, claims, members, verdict.
#include "rendezvous/hub.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>

#include "base/log.hpp"
#include "rendezvous/frame_link.hpp"
#include "rendezvous/hub_texts.hpp"
#include "sys/file_limit.hpp"
#include "sys/net/socket.hpp"

namespace coll {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kStrangers = 128;     // beyond the ranks that are missing
constexpr auto kStrangerTime = seconds(5);  // to prove the key
constexpr auto kDoubtTime = seconds(1);     // for news that the holder of a rank is gone
constexpr auto kVerdictTime = seconds(1);   // to get the verdict out
constexpr auto kChorePeriod = milliseconds(100);

/// One that is proved.
struct Claim {
  Claimant who;
  std::string nonce;
};

struct Stranger {
  FrameLink link;
  std::string nonce;
  std::string from;
  Deadline until;
  std::optional<Claim> claim{};  ///< proved, but another process holds the rank
  bool refused = false;          ///< it has been told why
};

struct Arrived {
  FrameLink link;
  Claimant who;
  bool confirmed = false;
};

class Hub {
 public:
  Hub(Listeners listeners, const std::string& key, const Claimant& me, const std::string& source)
      : listeners_(std::move(listeners)), key_(key), me_(me), source_(source) {
    members_.resize(static_cast<std::size_t>(me.size));
    told_.resize(members_.size());
  }

  Result<Meeting> run(Deadline deadline, const HubChore& chore);

 private:
  Status turn(Deadline until);
  Status accept_all();
  Status hear_stranger(Stranger& stranger);
  Status hear_claim(Stranger& stranger, const std::string& frame);
  Status admit(Stranger& stranger, const Claim& claim);
  /// Tells a rank that has proved itself why it cannot stay.
  void refuse(Stranger& stranger, const Claim& claim, const Status& why);
  void refuse_doubted();
  Status hear_member(Arrived& member);
  /// Sends a frame to every member and waits (bounded) until it is out.
  void tell_all(const std::string& frame);
  void drop(Stranger& stranger, const char* why);
  /// After a failure: tells it to those that come late, for a moment.
  void tell_latecomers(const Status& failure, Deadline deadline);
  [[nodiscard]] Status missing();
  Arrived& member(Rank rank) { return members_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool in_range(const Claimant& who) const {
    return who.rank >= 0 && who.rank < me_.size;
  }
  std::string& told(Rank rank) { return told_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool complete() const { return present_ + 1 == me_.size; }
  [[nodiscard]] bool in_one_network() const;

  Listeners listeners_;
  const std::string& key_;
  const Claimant& me_;
  const std::string& source_;
  std::vector<Arrived> members_;  ///< by rank; its own without a link
  std::deque<Stranger> strangers_;
  Rank present_ = 0;               ///< members that have confirmed
  Status verdict_;                 ///< the failure, once there is one
  std::vector<std::string> told_;  ///< by rank: the instance that has been sent the failure
  Turned turned_;
};

void Hub::drop(Stranger& stranger, const char* why) {
  if (log_enabled(LogLevel::info)) {
    log(LogLevel::info, "rendezvous: dropped a stranger from " + stranger.from + ": " + why);
  }
  stranger.link.close();
}

Status Hub::accept_all() {
  // One turn takes no more than this; a flood cannot keep the members waiting.
  for (std::size_t taken = 0; taken < kStrangers + members_.size(); ++taken) {
    Result<Fd> next = listeners_.accept();
    if (!next.ok()) {
      const int error = next.status().failure()->error;
      if ((error == EMFILE || error == ENFILE) && !strangers_.empty()) {
        drop(strangers_.front(), "no file descriptors left");
        strangers_.pop_front();
        continue;
      }
      return next.status().with_context("rendezvous: accepting rank " +
                                        std::to_string(present_ + 1) + " of " +
                                        std::to_string(me_.size));
    }
    if (!*next) return {};
    set_nodelay(next->get());
    COLL_ASSIGN(std::string nonce, random_bytes(kNonceBytes));
    Stranger stranger{FrameLink(*std::move(next), kHandshakeLimit),
                      std::move(nonce),
                      {},
                      Clock::now() + kStrangerTime};
    stranger.from = remote_address(stranger.link.fd()).text();
    stranger.link.send(pack_greeting(stranger.nonce));
    strangers_.push_back(std::move(stranger));
    if (strangers_.size() > kStrangers + members_.size()) {
      drop(strangers_.front(), "too many connections that prove nothing");
      strangers_.pop_front();
    }
  }
  return {};
}

void Hub::refuse(Stranger& stranger, const Claim& claim, const Status& why) {
  // The proof first, or it would not believe the rest.
  stranger.link.send(pack_welcome(welcome_proof(key_, stranger.nonce, claim.nonce)));
  stranger.link.send(pack_failure(why));
  stranger.refused = true;
  stranger.until = Clock::now() + kStrangerTime;  // closed before it has read, it might not
}

void Hub::refuse_doubted() {
  for (Stranger& one : strangers_) {
    if (one.link && one.claim && !one.refused)
      refuse(one, *one.claim, taken_rank(member(one.claim->who.rank).who, one.claim->who));
  }
}

Status Hub::admit(Stranger& stranger, const Claim& claim) {
  const Claimant& who = claim.who;
  if (!verdict_.ok()) {
    const bool again = in_range(who) && !told(who.rank).empty() && told(who.rank) != who.instance;
    if (again) {
      drop(stranger, "it has heard what came of this meeting, and comes for the next one");
      return {};
    }
    refuse(stranger, claim, verdict_);
    if (in_range(who)) told(who.rank) = who.instance;
    return verdict_;
  }
  if (who.size != me_.size) {
    turned_.last = other_size(me_, who);
    refuse(stranger, claim, turned_.last);
    return {};
  }
  if (!in_range(who)) {
    drop(stranger, "its rank is out of range");
    return {};
  }
  Arrived& held = member(who.rank);
  const Claimant* holder = who.rank == me_.rank ? &me_ : held.link ? &held.who : nullptr;
  if (holder != nullptr && holder->instance == me_.instance && who.instance == me_.instance) {
    drop(stranger, "it is this process itself");
    return {};
  }
  if (holder != nullptr && holder->instance != who.instance) {
    // The news that the holder has died may be on its way, unless the holder is the hub itself.
    if (holder != &me_ && !stranger.claim) {
      stranger.until = Clock::now() + kDoubtTime;
      stranger.claim = claim;
      return {};
    }
    if (holder != &me_ && Clock::now() < stranger.until) return {};
    turned_.last = taken_rank(*holder, who);
    refuse(stranger, claim, turned_.last);
    return {};
  }
  if (held.confirmed) --present_;  // the same process by another connection
  held = {std::move(stranger.link), who, false};
  held.link.send(pack_welcome(welcome_proof(key_, stranger.nonce, claim.nonce)));
  return {};
}

Status Hub::hear_claim(Stranger& stranger, const std::string& frame) {
  const auto version = read_claim_version(frame);
  const auto sealed = read_claim(frame);
  if (!sealed) {
    const bool other = version.has_value() && *version != kWireVersion;
    stranger.link.send(pack_refusal(other ? Refused::version : Refused::garbage));
    drop(stranger, other ? "it speaks another version" : "it speaks another language");
    return {};
  }
  if (!is_proved(*sealed, key_, stranger.nonce)) {
    ++turned_.wrong_keys;
    turned_.last_wrong_key = stranger.from;
    stranger.link.send(pack_refusal(Refused::key));
    drop(stranger, "another job or another COLL_SECRET");
    return {};
  }
  auto who = read_claimant(*sealed);
  if (!who) {
    drop(stranger, "it speaks another language");
    return {};
  }
  return admit(stranger, {*std::move(who), std::string(sealed->nonce)});
}

Status Hub::hear_stranger(Stranger& stranger) {
  std::string frame;
  switch (stranger.link.receive(frame)) {
    case FrameLink::Got::frame:
      return stranger.claim || stranger.refused ? Status() : hear_claim(stranger, frame);
    case FrameLink::Got::nothing:
      return {};
    case FrameLink::Got::closed:
      stranger.link.close();  // a rank that found another way here, or a port scan: no news
      return {};
    case FrameLink::Got::garbage:
      drop(stranger, "it speaks another language");
      return {};
  }
  return {};
}

Status Hub::hear_member(Arrived& member) {
  std::string frame;
  const FrameLink::Got got = member.link.receive(frame);
  if (got == FrameLink::Got::nothing) return {};
  if (got == FrameLink::Got::frame) {
    if (word_of(frame) == Word::confirm && !member.confirmed) {
      member.confirmed = true;
      ++present_;
      return {};
    }
    if (const auto failure = read_failure(frame); failure && verdict_.ok()) {
      Status why = missing();
      return why.with_context("rank " + std::to_string(member.who.rank) + " (" + member.who.text() +
                              ") gave up waiting");
    }
  }
  member.link.close();
  if (!member.confirmed || !verdict_.ok()) return {};  // it has turned to another address, or heard
  return failed(Code::peer_lost,
                "rank " + std::to_string(member.who.rank) + " (" + member.who.text() +
                    ") went away before all ranks were there",
                "see that rank's output for the reason")
      .at_rank(member.who.rank);
}

Status Hub::turn(Deadline until) {
  std::vector<pollfd> fds;
  std::vector<std::size_t> ranks;
  fds.push_back({listeners_.fd(), POLLIN, 0});
  for (const Stranger& one : strangers_) {
    fds.push_back({one.link.fd(), one.link.events(), 0});
    until = std::min(until, one.until);
  }
  const std::size_t strangers = strangers_.size();
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (!members_[rank].link) continue;
    ranks.push_back(rank);
    fds.push_back({members_[rank].link.fd(), members_[rank].link.events(), 0});
  }
  if (::poll(fds.data(), fds.size(), poll_timeout(until)) < 0 && errno != EINTR) {
    return system_failure("rendezvous: waiting for ranks", errno);
  }
  // Members before strangers: a rank whose connection broke and that dials again is not a second
  // one. (Its instance would say so too, but a restarted process has another.)
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Arrived& member = members_[ranks[i]];
    const short seen = fds[1 + strangers + i].revents;
    if ((seen & POLLOUT) != 0) member.link.push();
    if ((seen & ~POLLOUT) != 0) COLL_TRY(hear_member(member));
  }
  const auto now = Clock::now();
  for (std::size_t i = 0; i < strangers; ++i) {
    Stranger& stranger = strangers_[i];
    const short seen = fds[1 + i].revents;
    if ((seen & POLLOUT) != 0) stranger.link.push();
    if ((seen & ~POLLOUT) != 0) COLL_TRY(hear_stranger(stranger));
    if (stranger.link && stranger.claim && !stranger.refused) {
      COLL_TRY(admit(stranger, *stranger.claim));
    }
    if (stranger.link && now >= stranger.until) {
      drop(stranger, stranger.refused ? "it has been refused" : "it proved nothing in time");
    }
  }
  std::erase_if(strangers_, [](const Stranger& one) { return !one.link; });
  if ((fds[0].revents & POLLIN) != 0) COLL_TRY(accept_all());
  return {};
}

void Hub::tell_all(const std::string& frame) {
  for (Arrived& member : members_) {
    if (member.link) member.link.send(frame);
  }
  const auto until = Clock::now() + kVerdictTime;
  for (Arrived& member : members_) member.link.finish_sending(until);
}

void Hub::tell_latecomers(const Status& failure, Deadline deadline) {
  verdict_ = failure;
  told(me_.rank) = me_.instance;
  for (const Arrived& member : members_) {
    if (member.link) told(member.who.rank) = member.who.instance;
  }
  const auto until = std::min(deadline, Clock::now() + kVerdictTime);
  while (std::ranges::count(told_, std::string()) > 0 && Clock::now() < until) {
    [[maybe_unused]] const Status heard = turn(until);
  }
}

Status Hub::missing() {
  std::vector<Rank> absent;
  for (Rank rank = 0; rank < me_.size; ++rank) {
    if (rank != me_.rank && !member(rank).confirmed) absent.push_back(rank);
  }
  return ranks_missing(absent, me_, source_, listeners_, turned_);
}

bool Hub::in_one_network() const {
  return std::ranges::all_of(members_, [&](const Arrived& one) {
    return !one.link || shares_network(me_, one.who, one.link.fd());  // none: the hub itself
  });
}

Result<Meeting> Hub::run(Deadline deadline, const HubChore& chore) {
  Status failure = raise_file_limit(members_.size() + 1, 2 * members_.size() + kStrangers,
                                    "the hub of " + std::to_string(me_.size) + " ranks");
  while (failure.ok() && !complete()) {
    if (Clock::now() >= deadline) {
      failure = missing();
      break;
    }
    failure = turn(std::min(deadline, Clock::now() + kChorePeriod));
    if (failure.ok() && chore) failure = chore();
  }
  Result<std::string> random = random_bytes(kNonceBytes);
  if (failure.ok()) failure = random.ok() ? Status() : random.status();
  if (!failure.ok()) {
    tell_all(pack_failure(failure));
    tell_latecomers(failure, deadline);
    return failure;
  }
  Meeting meeting;
  meeting.one_network = in_one_network();
  tell_all(pack_start({me_.rank, meeting.one_network, *random}));
  refuse_doubted();
  meeting.rank = meeting.hub = me_.rank;
  meeting.size = me_.size;
  name_job(key_, *random, meeting.job);
  for (Arrived& member : members_) meeting.links.push_back(member.link.take());
  return meeting;
}

}  // namespace

Result<Meeting> hold_meeting(Listeners listeners, const std::string& key, const Claimant& me,
                             const std::string& source, Deadline deadline, const HubChore& chore) {
  return Hub(std::move(listeners), key, me, source).run(deadline, chore);
}

}  // namespace coll
