// SPDX-License-Identifier: Apache-2.0
// The hub's watch, which decides what all ranks fail with.

#include <algorithm>
#include <optional>

#include "watch/watch_side.hpp"

namespace coll {
namespace {

class WatchHub final : public WatchSide {
 public:
  WatchHub(std::unique_ptr<Topic> topic, std::vector<Member> members, const CallBoard& board)
      : WatchSide(std::move(topic), std::move(members), board),
        left_(static_cast<std::size_t>(size_), false) {}
  ~WatchHub() override { stop(); }

 private:
  void on_report(const Status& failure) override { decide(failure); }
  void on_question(const Question& question) override;
  void on_leave(const Departure& departure) override;
  void on_word(Rank from, WatchWord word, std::string_view frame) override;
  void on_closed(Rank from, Topic::Ending why) override;
  Deadline on_turn(Deadline now) override;

  /// The first failure is everybody's.
  void decide(const Status& failure);
  void gather(const Question& question);
  void keep_doubt(const Question& question);
  void on_left(Rank from, const Departure& departure);
  void take_place(Rank from, const Whereabouts& place);
  void answer_question();

  /// When hundreds of ranks are in doubt of a collective, each asks, and each question costs all of
  /// them. So the hub rests after each, ten times as long as it took, within limits. A rank that is
  /// not heard asks again later. A doubt of a send or receive costs one rank, and is nobody else's
  /// to ask. So it waits until the question before it has been answered.
  static constexpr int kRest = 10;
  static constexpr Deadline::duration kLongestRest = std::chrono::milliseconds(300);

  struct Gathering {
    Question question;
    Deadline since;
    std::vector<RankPlace> places;
    Rank missing = 0;
    Deadline until;
  };
  std::optional<Gathering> gathering_;
  Deadline rest_until_;           ///< no mere doubts of collectives before
  std::vector<Question> doubts_;  ///< of pairs, in the order in which they came
  static constexpr std::size_t kMostDoubts = 64;
  std::uint32_t tickets_ = 0;
  std::vector<bool> left_;
  std::optional<Deadline> leaving_until_;
};

void WatchHub::decide(const Status& failure) {
  if (concluded()) return;
  gathering_.reset();
  topic().send_all(pack_verdict(failure));
  conclude(failure);
}

void WatchHub::on_question(const Question& question) {
  // One answer serves all who ask, unless what is under way is a mere doubt.
  const auto in_doubt = [](const Question& one) { return one.reason == Question::Reason::doubt; };
  if (concluded()) return;
  const bool of_pair = in_doubt(question) && question.call.is_pair();
  if (of_pair && gathering_) return keep_doubt(question);
  if (gathering_ && (in_doubt(question) || !in_doubt(gathering_->question))) return;
  if (in_doubt(question) && !of_pair && Clock::now() < rest_until_) return;
  gather(question);
}

/// Whoever asks again while it waits adds nothing.
void WatchHub::keep_doubt(const Question& question) {
  const auto same = [&](const Question& one) {
    return one.asker == question.asker && one.call == question.call;
  };
  if (doubts_.size() < kMostDoubts && std::ranges::none_of(doubts_, same))
    doubts_.push_back(question);
}

void WatchHub::gather(const Question& question) {
  const Deadline now = Clock::now();
  Gathering gathering;
  gathering.since = now;
  gathering.question = question;
  gathering.question.ticket = ++tickets_;
  gathering.places.resize(static_cast<std::size_t>(size_));
  gathering.until = now + kGatherTime;
  for (Rank rank = 0; rank < size_; ++rank) {
    RankPlace& one = gathering.places[static_cast<std::size_t>(rank)];
    one.left = left_[static_cast<std::size_t>(rank)];
    if (rank == rank_) {
      one.place = place(question);
    } else if (topic().open(rank) && !one.left && concerns(question, rank)) {
      ++gathering.missing;
      topic().send(rank, pack_where(gathering.question));
    }
  }
  gathering_ = std::move(gathering);
  if (gathering_->missing == 0) answer_question();
}

void WatchHub::take_place(Rank from, const Whereabouts& place) {
  if (!gathering_ || place.ticket != gathering_->question.ticket) return;
  RankPlace& one = gathering_->places[static_cast<std::size_t>(from)];
  if (one.place || one.left) return;
  one.place = place;
  if (--gathering_->missing == 0) answer_question();
}

void WatchHub::answer_question() {
  Gathering done = *std::move(gathering_);
  gathering_.reset();
  if (done.question.reason == Question::Reason::doubt) {
    const Deadline now = Clock::now();
    if (!done.question.call.is_pair())
      rest_until_ = now + std::min<Deadline::duration>(kRest * (now - done.since), kLongestRest);
    if (!calls_differ(done.question, done.places)) {
      if (doubts_.empty()) return;
      const Question next = doubts_.front();
      doubts_.erase(doubts_.begin());
      return gather(next);
    }
    done.question.reason = Question::Reason::mismatch;
  }
  decide(places_report(done.question, done.places, members_));
}

void WatchHub::on_left(Rank from, const Departure& departure) {
  if (left_[static_cast<std::size_t>(from)]) return;  // said twice
  left_[static_cast<std::size_t>(from)] = true;
  note_departure(departure);
  if (gathering_ && concerns(gathering_->question, from) &&
      !gathering_->places[static_cast<std::size_t>(from)].place) {
    gathering_->places[static_cast<std::size_t>(from)].left = true;
    if (--gathering_->missing == 0) answer_question();
  }
  topic().send_all(pack_left(departure));  // to itself as the receipt
}

void WatchHub::on_word(Rank from, WatchWord word, std::string_view frame) {
  switch (word) {
    case WatchWord::report:
      if (const auto failure = read_report(frame)) return decide(*failure);
      break;
    case WatchWord::question:
      if (const auto question = read_question(frame); question && question->asker == from) {
        return on_question(*question);
      }
      break;
    case WatchWord::place:
      if (const auto place = read_place(frame)) return take_place(from, *place);
      break;
    case WatchWord::left:
      if (const auto left = read_left(frame); left && left->rank == from) {
        return on_left(from, *left);
      }
      break;
    case WatchWord::where:
    case WatchWord::verdict:
      break;
  }
  decide(lost(from, Topic::Ending::senseless));
}

void WatchHub::on_closed(Rank from, Topic::Ending why) {
  if (left_[static_cast<std::size_t>(from)] || leaving_until_) return;
  decide(lost(from, why));
}

void WatchHub::on_leave(const Departure& departure) {
  topic().send_all(pack_left(departure));
  leaving_until_ = Clock::now() + kLeaveTime;
}

Deadline WatchHub::on_turn(Deadline now) {
  if (gathering_ && now >= gathering_->until) answer_question();
  if (leaving_until_) {
    // The others hang up first: then they have read what was sent last.
    bool all_gone = true;
    for (Rank rank = 0; rank < size_; ++rank) all_gone = all_gone && !topic().open(rank);
    if (all_gone || now >= *leaving_until_) finish();
    return *leaving_until_;
  }
  return gathering_ ? gathering_->until : Deadline::max();
}

}  // namespace

std::unique_ptr<WatchSide> make_watch_hub(std::unique_ptr<Topic> topic, std::vector<Member> members,
                                          const CallBoard& board) {
  return std::make_unique<WatchHub>(std::move(topic), std::move(members), board);
}

}  // namespace coll
