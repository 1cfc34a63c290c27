// SPDX-License-Identifier: Apache-2.0
// The hub's side of an exchange.
#include <algorithm>
#include <deque>
#include <memory>

#include "base/log.hpp"
#include "rendezvous/exchange/exchange_rules.hpp"
#include "rendezvous/exchange/exchange_sides.hpp"
#include "rendezvous/exchange/hub_links.hpp"
#include "rendezvous/frame_link.hpp"
#include "rendezvous/handshake.hpp"
#include "rendezvous/ranks_text.hpp"

namespace coll {
namespace {

class HubExchange {
 public:
  HubExchange(Meeting& meeting, const Relaying& relaying, Deadline deadline)
      : me_(meeting.rank),
        tree_(relay_tree(meeting, relaying)),
        help_time_(relaying.help_time),
        deadline_(deadline),
        links_(meeting),
        missing_(static_cast<std::size_t>(meeting.size)),
        texts_(missing_.size()),
        doors_(tree_.is_star() ? 0 : missing_.size()),
        sent_(missing_.size()) {}

  Result<std::string> run(std::string mine);

 private:
  using Take = Status (HubExchange::*)(Rank rank, const std::string& frame);

  Status gather_and_send(std::string mine);
  /// Hears each rank once. Any failure is for all of them.
  Status hear_each(Take take);
  Status take_text(Rank rank, const std::string& frame);
  Status take_have(Rank rank, const std::string& frame);
  void send_packet(Rank rank);
  /// Somebody has been heard: help for all waits again.
  void put_off_help(Deadline now);
  /// Goes on serving those that need help; when to look again.
  Deadline help(Deadline now);
  void help_all_missing();
  void tell_all(const std::string& frame);
  /// Waits until all that was sent is out.
  Status flush(Deadline until);
  [[nodiscard]] Status late() const;

  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }

  Rank me_;
  RelayTree tree_;
  Clock::duration help_time_;
  Deadline deadline_;
  HubLinks links_;
  std::vector<bool> missing_;  ///< by rank: not heard in this round
  std::vector<std::string> texts_;
  std::vector<std::string> doors_;
  std::shared_ptr<const std::string> packet_;
  std::vector<bool> sent_;  ///< by rank: the hub itself has sent it the packet

  struct Helped {
    Rank rank = kNoRank;
    Deadline until;  ///< then another one's turn has come
  };
  std::deque<Rank> to_help_;
  std::vector<Helped> helping_;
  Deadline help_all_at_ = Deadline::max();
};

Status HubExchange::late() const {
  return late_ranks(missing_, "met but not finished connecting in time", "see whether they run");
}

Status HubExchange::hear_each(Take take) {
  Rank left = tree_.size() - 1;
  for (Rank rank = 0; rank < tree_.size(); ++rank) {
    missing_[at(rank)] = rank != me_;
    if (rank != me_) links_.want(rank);
  }
  while (left > 0) {
    COLL_ASSIGN(const auto all, links_.turn(std::min(deadline_, help(Clock::now()))));
    for (const auto& [rank, got, frame] : all) {
      if (got == FrameLink::Got::closed) return lost_rank(rank);
      COLL_TRY(got == FrameLink::Got::garbage ? senseless_rank(rank) : (this->*take)(rank, frame));
      missing_[at(rank)] = false;
      --left;
    }
    if (left > 0 && Clock::now() >= deadline_) return late();
  }
  return {};
}

Status HubExchange::take_text(Rank rank, const std::string& frame) {
  const auto word = read_text(frame);
  if (!word) return senseless_rank(rank);
  texts_[at(rank)] = word->text;
  if (word->port != 0 && !tree_.is_star()) doors_[at(rank)] = links_.door(rank, word->port);
  return {};
}

Status HubExchange::take_have(Rank rank, const std::string& frame) {
  const auto unreached = read_have(frame, tree_.size());
  if (!unreached) return senseless_rank(rank);
  to_help_.insert(to_help_.begin(), unreached->begin(), unreached->end());
  put_off_help(Clock::now());
  return {};
}

/// By half of the time that is left at most: then the hub can still tell a stuck relay from the
/// ranks that wait for it.
void HubExchange::put_off_help(Deadline now) {
  help_all_at_ = now + std::min(help_time_, (deadline_ - now) / 2);
}

void HubExchange::send_packet(Rank rank) {
  if (sent_[at(rank)]) return;
  sent_[at(rank)] = true;
  links_.send(rank, packet_);
}

Deadline HubExchange::help(Deadline now) {
  if (now >= help_all_at_) help_all_missing();
  std::erase_if(helping_, [&](const Helped& one) {
    return now >= one.until || !missing_[at(one.rank)] || !links_.sending(one.rank);
  });
  while (!to_help_.empty() && helping_.size() < static_cast<std::size_t>(tree_.fan_out())) {
    const Rank rank = to_help_.front();
    to_help_.pop_front();
    if (!missing_[at(rank)]) continue;
    send_packet(rank);
    helping_.push_back({rank, now + help_time_});
  }
  Deadline next = help_all_at_;
  for (const Helped& one : helping_) next = std::min(next, one.until);
  return next;
}

/// From the hub down: a rank that is served may be the next rank's relay.
void HubExchange::help_all_missing() {
  help_all_at_ = Deadline::max();
  if (log_enabled(LogLevel::info)) {
    log(LogLevel::info,
        "exchange: no word of " + ranks_text(ranks_where(missing_)) + "; sending to them directly");
  }
  to_help_.clear();
  for (Rank place = 1; place < tree_.size(); ++place) {
    const Rank rank = tree_.rank_at(place);
    if (missing_[at(rank)]) to_help_.push_back(rank);
  }
}

void HubExchange::tell_all(const std::string& frame) {
  const auto shared = std::make_shared<const std::string>(frame);
  for (Rank rank = 0; rank < tree_.size(); ++rank) {
    if (rank != me_) links_.send(rank, shared);
  }
}

Status HubExchange::flush(Deadline until) {
  for (;;) {
    const std::vector<Rank> left = links_.sending();
    if (left.empty()) return {};
    if (Clock::now() >= until) {
      return failed(Code::deadline, ranks_text(left) + " did not take all texts in time",
                    "see whether they run")
          .at_rank(left.front());
    }
    COLL_TRY(links_.turn(until).status());
  }
}

Status HubExchange::gather_and_send(std::string mine) {
  texts_[at(me_)] = std::move(mine);
  COLL_TRY(links_.begin());
  COLL_TRY(hear_each(&HubExchange::take_text));
  COLL_ASSIGN(std::string packet, pack_texts(texts_, doors_));
  packet_ = std::make_shared<const std::string>(std::move(packet));
  for (const Rank child : tree_.children(me_)) send_packet(child);
  if (tree_.is_star()) return {};
  const auto now = Clock::now();
  deadline_ =
      std::max(deadline_, now + kHubsWordTime);  // where the last text came at the last moment
  put_off_help(now);
  COLL_TRY(hear_each(&HubExchange::take_have));
  tell_all(pack_go());
  return {};
}

Result<std::string> HubExchange::run(std::string mine) {
  Status outcome = gather_and_send(std::move(mine));
  if (!outcome.ok()) tell_all(pack_failure(outcome));
  const auto soon = Clock::now() + kHubsWordTime;
  const Status sent = flush(outcome.ok() ? std::max(deadline_, soon) : soon);
  if (outcome.ok()) outcome = sent;
  if (!outcome.ok()) return outcome;
  return *packet_;
}

}  // namespace

Result<std::string> exchange_as_hub(Meeting& meeting, const Relaying& relaying, std::string mine,
                                    Deadline deadline) {
  return HubExchange(meeting, relaying, deadline).run(std::move(mine));
}

}  // namespace coll
