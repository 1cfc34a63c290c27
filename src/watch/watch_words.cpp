// SPDX-License-Identifier: Apache-2.0
// The watches' words, packed and read.
#include "watch/watch_words.hpp"

#include <algorithm>

#include "rendezvous/control_message.hpp"

namespace coll {
namespace {

constexpr std::size_t kLongestText = 12000;  // four of them fit a frame

MessageWriter begin(WatchWord word) {
  MessageWriter message;
  message.u8(static_cast<std::uint8_t>(word));
  return message;
}

MessageWriter& add_call(MessageWriter& message, const Call& call) {
  return message.u64(call.sequence)
      .u8(static_cast<std::uint8_t>(call.collective))
      .u8(static_cast<std::uint8_t>(call.type))
      .u8(static_cast<std::uint8_t>(call.op))
      .rank(call.root)
      .u64(call.count)
      .u8(static_cast<std::uint8_t>(call.form));
}

Call read_call(MessageReader& message) {
  Call call;
  call.sequence = message.u64();
  const std::uint8_t collective = message.u8();
  const std::uint8_t type = message.u8();
  const std::uint8_t op = message.u8();
  call.root = message.rank();
  call.count = message.u64();
  const std::uint8_t form = message.u8();
  const bool known_op = op < kReduceOps || is_own(static_cast<ReduceOp>(op));
  if (collective >= kCollectives || type >= kDataTypes || !known_op || form >= kCallForms) {
    message.refuse();
    return {};
  }
  call.collective = static_cast<Collective>(collective);
  call.type = static_cast<DataType>(type);
  call.op = static_cast<ReduceOp>(op);
  call.form = static_cast<CallForm>(form);
  return call;
}

std::string shortened(const std::string& text) {
  return text.size() <= kLongestText ? text : text.substr(0, kLongestText) + " …";
}

std::string pack_status(WatchWord word, const Status& status) {
  Failure failure = *status.failure();
  failure.what = shortened(failure.what);
  failure.hint = shortened(failure.hint);
  failure.call.text = shortened(failure.call.text);
  failure.where = shortened(failure.where);
  return begin(word).failure(failure).bytes();
}

std::string pack_asking(WatchWord word, const Question& question) {
  MessageWriter message = begin(word);
  message.rank(question.asker);
  return add_call(message, question.call)
      .u8(static_cast<std::uint8_t>(question.reason))
      .u64(static_cast<std::uint64_t>(std::max(question.waited_s, 0.0) * 1000))
      .rank(question.peer)
      .text(shortened(question.found))
      .u32(question.ticket)
      .bytes();
}

std::string_view behind(std::string_view frame) {
  return frame.substr(std::min<std::size_t>(1, frame.size()));
}

}  // namespace

std::string pack_report(const Status& failure) {
  return pack_status(WatchWord::report, failure);
}

std::string pack_verdict(const Status& failure) {
  return pack_status(WatchWord::verdict, failure);
}

std::string pack_question(const Question& question) {
  return pack_asking(WatchWord::question, question);
}

std::string pack_where(const Question& question) {
  return pack_asking(WatchWord::where, question);
}

std::string pack_place(const Whereabouts& place) {
  MessageWriter message = begin(WatchWord::place);
  add_call(message, place.reading.call)
      .u8(place.reading.inside ? 1 : 0)
      .u32(place.reading.others)
      .u64(place.reading.entered)
      .u64(place.reading.collectives)
      .u64(static_cast<std::uint64_t>(place.since_s * 1000))
      .u32(place.ticket)
      .u8(place.counterpart ? 1 : 0);
  if (place.counterpart) add_call(message, *place.counterpart);
  return message.bytes();
}

std::string pack_left(const Departure& departure) {
  return begin(WatchWord::left).rank(departure.rank).u64(departure.collectives).bytes();
}

std::optional<Status> read_report(std::string_view frame) {
  MessageReader message(behind(frame));
  Failure failure = message.failure();
  return message.whole() ? std::optional(Status(std::move(failure))) : std::nullopt;
}

std::optional<Question> read_question(std::string_view frame) {
  MessageReader message(behind(frame));
  Question question;
  question.asker = message.rank();
  question.call = read_call(message);
  const std::uint8_t reason = message.u8();
  if (reason > static_cast<std::uint8_t>(Question::Reason::doubt)) return std::nullopt;
  question.reason = static_cast<Question::Reason>(reason);
  question.waited_s = static_cast<double>(message.u64()) / 1000;
  question.peer = message.rank();
  question.found = message.text();
  question.ticket = message.u32();
  return message.whole() ? std::optional(std::move(question)) : std::nullopt;
}

std::optional<Whereabouts> read_place(std::string_view frame) {
  MessageReader message(behind(frame));
  Whereabouts place;
  place.reading.call = read_call(message);
  place.reading.inside = message.u8() != 0;
  place.reading.others = message.u32();
  place.reading.entered = message.u64();
  place.reading.collectives = message.u64();
  place.since_s = static_cast<double>(message.u64()) / 1000;
  place.ticket = message.u32();
  if (message.u8() != 0) place.counterpart = read_call(message);
  return message.whole() ? std::optional(place) : std::nullopt;
}

std::optional<Departure> read_left(std::string_view frame) {
  MessageReader message(behind(frame));
  Departure departure;
  departure.rank = message.rank();
  departure.collectives = message.u64();
  return message.whole() ? std::optional(departure) : std::nullopt;
}

}  // namespace coll
