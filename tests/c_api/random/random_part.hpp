// SPDX-License-Identifier: Apache-2.0
// The buffers of one drawn call, or of one of its parts, on one rank, and what must be in them at
// its end.
#pragma once
#include <collectives/collectives.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "c_api/api_calls.hpp"
#include "exact_type.hpp"

namespace collectives::testing {

/// What all parts of a call share, alike on all ranks.
struct DrawnCall {
  coll_operation_t what = COLL_BARRIER;  ///< COLL_SEND: of `root` to `to`
  ExactType type{COLL_INT64};
  coll_op_t op = COLL_SUM;
  int size = 1;
  int root = 0, to = 0;
  bool unequal = false;
  bool scaled = false;     ///< each rank multiplies what it gives by its factor
  std::size_t longer = 0;  ///< elements that a tagged recv has room for beyond its message

  [[nodiscard]] bool reduces() const {
    return what == COLL_ALL_REDUCE || what == COLL_REDUCE || what == COLL_REDUCE_SCATTER;
  }
  [[nodiscard]] bool has_blocks() const {
    return what == COLL_ALL_GATHER || what == COLL_REDUCE_SCATTER || what == COLL_ALL_TO_ALL ||
           what == COLL_GATHER || what == COLL_SCATTER;
  }
  [[nodiscard]] std::int64_t factor(int rank) const { return type.element(2 * rank + 3); }
};

class RandomPart {
 public:
  /// `number` makes its values its own; `counts`: of the blocks, by giver and taker.
  RandomPart(const DrawnCall& call, std::int64_t number, std::vector<std::size_t> counts,
             bool in_place)
      : call_(call), number_(number), counts_(std::move(counts)), in_place_(in_place) {}

  /// Makes the rank's buffers and what the result is to be.
  void prepare(int rank) {
    const bool at_root = rank == call_.root;
    const coll_operation_t what = call_.what;
    const bool gathers = what == COLL_ALL_GATHER || what == COLL_GATHER;
    std::size_t before = 0;  // elements of the blocks ahead of the rank's own
    for (int peer = 0; peer < rank; ++peer) {
      before += gathers ? count(peer, rank) : count(rank, peer);
    }
    bool whole_result = false, whole_input = false;  // in place: which of both has all blocks
    Values given, expected;
    switch (what) {
      case COLL_ALL_REDUCE:
      case COLL_REDUCE:
        given = block(rank, 0);
        if (what == COLL_ALL_REDUCE || at_root) expected = reduced(0);
        in_place_ = in_place_ && !expected.empty();
        break;
      case COLL_BROADCAST:
        if (at_root) given = block(rank, 0);
        expected = block(call_.root, 0);
        in_place_ = in_place_ && at_root;
        break;
      case COLL_ALL_GATHER:
      case COLL_GATHER:
        given = block(rank, 0);
        whole_result = what == COLL_ALL_GATHER || at_root;
        if (whole_result) expected = all_taken(rank, true);
        in_place_ = in_place_ && whole_result;
        break;
      case COLL_REDUCE_SCATTER:
      case COLL_SCATTER:
        whole_input = what == COLL_REDUCE_SCATTER || at_root;
        if (whole_input) given = all_given(rank);
        expected = what == COLL_SCATTER ? block(call_.root, rank) : reduced(rank);
        in_place_ = in_place_ && whole_input;
        break;
      case COLL_ALL_TO_ALL:
        given = all_given(rank);
        expected = all_taken(rank, false);
        in_place_ = false;
        break;
      case COLL_SEND:
        if (at_root) given = block(rank, call_.to);
        if (rank == call_.to) {
          expected = block(call_.root, rank);
          expected.resize(expected.size() + call_.longer, kUntouched);
        }
        in_place_ = false;
        break;
      default:
        in_place_ = false;
    }
    own_count_ = count(rank, rank);
    const std::size_t element = call_.type.bytes();
    given_ = call_.type.packed(given);
    expected_ = call_.type.packed(expected);
    result_ = call_.type.packed(Values(expected.size(), kUntouched));
    if (!in_place_) return;
    if (whole_result) {
      std::ranges::copy(given_, result_.begin() + static_cast<std::ptrdiff_t>(before * element));
      input_at_ = before * element;
    } else if (whole_input) {
      result_ = given_;
      std::ranges::copy(expected_, given_.begin() + static_cast<std::ptrdiff_t>(before * element));
      result_at_ = before * element;
      result_bytes_ = expected_.size();
      expected_ = given_;
    } else {
      result_ = given_;
    }
  }

  [[nodiscard]] const void* send() const {
    return in_place_ ? result_.data() + input_at_ : given_.data();
  }
  [[nodiscard]] void* recv() { return result_.data() + result_at_; }
  /// As the operation's function takes it.
  [[nodiscard]] std::size_t own_count() const { return own_count_; }
  /// Elements of the block that a rank gives for another.
  [[nodiscard]] std::size_t count(int from, int to) const {
    const bool by_receiver = call_.what == COLL_REDUCE_SCATTER || call_.what == COLL_SCATTER;
    if (call_.what == COLL_ALL_TO_ALL) {
      return counts_[static_cast<std::size_t>(from * call_.size + to)];
    }
    return counts_[static_cast<std::size_t>(by_receiver ? to : from)];
  }
  [[nodiscard]] bool in_place() const { return in_place_; }

  /// After the call's end.
  [[nodiscard]] bool is_right() const {
    if (call_.what != COLL_REDUCE_SCATTER || !in_place_) return result_ == expected_;
    // What an in-place reduction leaves in the other blocks is its own affair.
    const auto begin = static_cast<std::ptrdiff_t>(result_at_);
    return std::equal(result_.begin() + begin,
                      result_.begin() + begin + static_cast<std::ptrdiff_t>(result_bytes_),
                      expected_.begin() + begin);
  }

 private:
  static constexpr std::int64_t kUntouched = -77;

  /// The element that a rank gives for another at a place of their block.
  [[nodiscard]] std::int64_t element(int from, int to, std::size_t at) const {
    const std::int64_t number = number_ * 1'000'003 + (from + 1) * 7919 + (to + 1) * 104'729 +
                                static_cast<std::int64_t>(at % 1009);
    return call_.type.element(at % 3 == 0 ? -number : number);
  }
  [[nodiscard]] Values block(int from, int to) const {
    Values values(count(from, to));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(from, to, i);
    return values;
  }
  [[nodiscard]] Values scaled_block(int from, int to) const {
    Values values = block(from, to);
    if (!call_.scaled) return values;
    for (std::int64_t& value : values) value = call_.type.product(value, call_.factor(from));
    return values;
  }
  [[nodiscard]] Values reduced(int to) const {
    Values values = scaled_block(0, to);
    for (int from = 1; from < call_.size; ++from) {
      const Values more = scaled_block(from, to);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = call_.type.reduced(call_.op, values[i], more[i]);
      }
    }
    return values;
  }
  [[nodiscard]] Values all_given(int from) const {
    Values values;
    for (int to = 0; to < call_.size; ++to) append(values, block(from, to));
    return values;
  }
  [[nodiscard]] Values all_taken(int to, bool alike) const {
    Values values;
    for (int from = 0; from < call_.size; ++from) append(values, block(from, alike ? 0 : to));
    return values;
  }
  static void append(Values& values, const Values& more) {
    values.insert(values.end(), more.begin(), more.end());
  }

  DrawnCall call_;
  std::int64_t number_;
  std::vector<std::size_t> counts_;
  bool in_place_;
  std::size_t own_count_ = 0;
  std::vector<std::byte> given_, result_, expected_;
  std::size_t result_at_ = 0, input_at_ = 0;  ///< where the call's recv and send begin in result_
  std::size_t result_bytes_ = 0;              ///< of an in-place reduce_scatter's own block
};

}  // namespace collectives::testing
