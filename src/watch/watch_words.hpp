// SPDX-License-Identifier: Apache-2.0
// What watches say to each other over the star.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "watch/call_board.hpp"

namespace coll {

enum class WatchWord : std::uint8_t {
  report = 'r',    ///< to the hub: this rank failed
  question = 'q',  ///< to the hub: something is wrong in this call: ask everybody
  where = 'w',     ///< from the hub: where are you, and what was your counterpart of this call?
  place = 'p',     ///< to the hub: the answer
  verdict = 'v',   ///< from the hub: what all ranks fail with
  left = 'l',      ///< a rank leaves in order; the hub passes it on, also back as the receipt
};

/// Why a rank asks about its call, and which call.
struct Question {
  enum class Reason : std::uint8_t {
    deadline,  ///< it passed
    mismatch,  ///< a message of another call came
    doubt,     ///< it takes long: no failure unless somebody called something else
  };
  Rank asker = kNoRank;
  Call call;
  Reason reason = Reason::deadline;
  double waited_s = 0;       ///< deadline
  Rank peer = kNoRank;       ///< mismatch: who sent the message
  std::string found;         ///< mismatch: what was wrong with it; deadline: what was awaited
  std::uint32_t ticket = 0;  ///< the hub's number for it: an answer to an earlier one is too late
};

/// Where a rank is.
struct Whereabouts {
  CallBoard::Reading reading;
  double since_s = 0;               ///< for how long at least
  std::uint32_t ticket = 0;         ///< of the question that it answers
  std::optional<Call> counterpart;  ///< its own call of the question's number, if it remembers it
};

struct Departure {
  Rank rank = kNoRank;
  std::uint64_t collectives = 0;  ///< the last collective it took part in
};

std::string pack_report(const Status& failure);
std::string pack_verdict(const Status& failure);
std::string pack_question(const Question& question);
std::string pack_where(const Question& question);
std::string pack_place(const Whereabouts& place);
std::string pack_left(const Departure& departure);

/// What follows the word, nothing if it does not parse.
std::optional<Status> read_report(std::string_view frame);      ///< a report or a verdict
std::optional<Question> read_question(std::string_view frame);  ///< a question or a where
std::optional<Whereabouts> read_place(std::string_view frame);
std::optional<Departure> read_left(std::string_view frame);

}  // namespace coll
