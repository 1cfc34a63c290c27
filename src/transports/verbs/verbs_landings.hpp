// SPDX-License-Identifier: Apache-2.0
// Where this end wants the messages that are to come.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/kept_queue.hpp"

namespace coll {

/// The places of messages in ascending order of their numbers. The peer is told of them in that
/// order, some messages ahead.
class VerbsLandings {
 public:
  struct Place {
    std::uint64_t number = 0;  ///< of the message
    std::byte* into = nullptr;
    std::size_t bytes = 0;
  };

  /// One more, unless a place of this or a later message is known.
  void add(const Place& place) {
    if (place.number < end_) return;
    end_ = place.number + 1;
    untold_.push(place);
  }
  /// The next place that the peer is to be told of, for messages before `end`; null: none.
  [[nodiscard]] const Place* untold(std::uint64_t end) const {
    return untold_.empty() || untold_.front().number >= end ? nullptr : &untold_.front();
  }
  [[nodiscard]] bool any_untold() const { return !untold_.empty(); }
  /// The peer is told of the next one.
  void tell() {
    told_.push(untold_.front());
    untold_.pop();
  }
  /// Of a message that is next to be consumed; null: the peer was told of none.
  [[nodiscard]] const Place* told(std::uint64_t message) const {
    return told_.empty() || told_.front().number != message ? nullptr : &told_.front();
  }
  /// The peer may still write to some place.
  [[nodiscard]] bool any_told() const { return !told_.empty(); }
  /// All before `message` were consumed.
  void forget_before(std::uint64_t message) {
    const auto forget = [&](KeptQueue<Place>& places) {
      while (!places.empty() && places.front().number < message) places.pop();
    };
    forget(told_);
    forget(untold_);
  }
  void clear() {
    told_.clear();
    untold_.clear();
  }

 private:
  KeptQueue<Place> untold_, told_;
  std::uint64_t end_ = 0;  ///< behind the last message that a place was known of
};

}  // namespace coll
