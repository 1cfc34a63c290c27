// SPDX-License-Identifier: Apache-2.0
// One drawn operation: the same on all ranks by the same random numbers, with buffers of its own
// and an oracle.
#pragma once
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "api_calls.hpp"

namespace collectives::testing {

/// Any operation but barrier, with equal or unequal blocks, in place or not.
class RandomOperation {
 public:
  /// Drawn for a communicator of `size` ranks; `number` makes its values its own.
  RandomOperation(std::mt19937_64& random, int size, std::int64_t number)
      : size_(size), number_(number) {
    static constexpr coll_operation_t kAll[] = {
        COLL_ALL_REDUCE, COLL_REDUCE, COLL_BROADCAST, COLL_ALL_GATHER, COLL_REDUCE_SCATTER,
        COLL_ALL_TO_ALL, COLL_GATHER, COLL_SCATTER,   COLL_SEND,       COLL_SEND};
    static constexpr coll_op_t kOps[] = {COLL_SUM, COLL_MIN, COLL_MAX, COLL_BXOR};
    what_ = kAll[random() % std::size(kAll)];
    op_ = kOps[random() % std::size(kOps)];
    root_ = draw_rank(random);
    to_ = draw_rank(random);
    in_place_ = random() % 3 == 0;
    const bool has_blocks = what_ == COLL_ALL_GATHER || what_ == COLL_REDUCE_SCATTER ||
                            what_ == COLL_ALL_TO_ALL || what_ == COLL_GATHER ||
                            what_ == COLL_SCATTER;
    unequal_ = has_blocks && random() % 2 == 0;
    const std::size_t most = random() % 4 == 0 ? 30'000 : 100;
    const std::size_t alike = random() % most;
    const auto ranks = static_cast<std::size_t>(size);
    for (std::size_t i = 0; i < ranks * ranks; ++i) {
      counts_.push_back(unequal_ ? random() % most : alike);
    }
  }

  /// Has this rank a part in it?
  [[nodiscard]] bool concerns(int rank) const {
    return what_ != COLL_SEND || rank == root_ || rank == to_;
  }

  /// Starts this rank's calls, a send to itself and its recv inside a group; each gets a handle if
  /// there are to be `works`.
  void start(coll_comm_t comm, int rank, coll_stream_t stream, std::vector<coll_work_t>* works) {
    prepare(rank);
    coll_call_t call = COLL_CALL_INIT;
    call.operation = what_;
    call.type = COLL_INT64;
    call.op = op_;
    call.root = root_;
    call.send = input();
    call.recv = result_.data() + result_at_;
    call.count = own_count(rank);
    if (unequal_) {
      call.unequal = 1;
      for (int peer = 0; peer < size_; ++peer) {
        gives_.push_back(count(rank, peer));
        takes_.push_back(count(peer, rank));
      }
      call.send_counts = gives_.data();
      call.recv_counts = takes_.data();
    }
    const auto issue = [&] {
      coll_work_t work = nullptr;
      EXPECT_TRUE(ok(coll_start(&call, comm, stream, works != nullptr ? &work : nullptr)))
          << text(rank);
      if (work != nullptr) works->push_back(work);
    };
    if (what_ == COLL_SEND) call.root = to_;
    if (what_ != COLL_SEND || rank == root_) issue();
    if (what_ == COLL_SEND && rank == to_) {
      call.operation = COLL_RECV;
      call.root = root_;
      issue();
    }
  }

  /// After its end.
  void check(int rank) const {
    if (what_ == COLL_REDUCE_SCATTER && in_place_) {
      // What an in-place reduction leaves in the other blocks is its own affair.
      const auto begin = result_.begin() + static_cast<std::ptrdiff_t>(result_at_);
      const std::size_t size = own_count(rank);
      EXPECT_TRUE(std::equal(begin, begin + static_cast<std::ptrdiff_t>(size),
                             expected_.begin() + static_cast<std::ptrdiff_t>(result_at_)))
          << text(rank);
      return;
    }
    EXPECT_TRUE(result_ == expected_) << text(rank);
  }

  [[nodiscard]] bool is_send_to_itself() const { return what_ == COLL_SEND && root_ == to_; }

 private:
  static constexpr std::int64_t kUntouched = -77;

  int draw_rank(std::mt19937_64& random) const {
    return static_cast<int>(random() % static_cast<std::uint64_t>(size_));
  }

  /// Elements of the block that a rank gives for another.
  [[nodiscard]] std::size_t count(int from, int to) const {
    const bool by_receiver = what_ == COLL_REDUCE_SCATTER || what_ == COLL_SCATTER;
    if (what_ == COLL_ALL_TO_ALL) return counts_[static_cast<std::size_t>(from * size_ + to)];
    return counts_[static_cast<std::size_t>(by_receiver ? to : from)];
  }
  /// As the operation's function takes it.
  [[nodiscard]] std::size_t own_count(int rank) const { return count(rank, rank); }

  /// The element that a rank gives for another at a place of their block.
  [[nodiscard]] std::int64_t element(int from, int to, std::size_t at) const {
    return number_ * 1'000'003 + (from + 1) * 7919 + (to + 1) * 104'729 +
           static_cast<std::int64_t>(at % 1009);
  }
  [[nodiscard]] Values block(int from, int to) const {
    Values values(count(from, to));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(from, to, i);
    return values;
  }
  [[nodiscard]] Values reduced(int to) const {
    Values values = block(0, to);
    for (int from = 1; from < size_; ++from) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::int64_t other = element(from, to, i);
        switch (op_) {
          case COLL_MIN:
            values[i] = std::min(values[i], other);
            break;
          case COLL_MAX:
            values[i] = std::max(values[i], other);
            break;
          case COLL_BXOR:
            values[i] ^= other;
            break;
          default:
            values[i] += other;
        }
      }
    }
    return values;
  }
  [[nodiscard]] Values all_given(int from) const {
    Values values;
    for (int to = 0; to < size_; ++to) append(values, block(from, to));
    return values;
  }
  [[nodiscard]] Values all_taken(int to) const {
    Values values;
    const bool to_all = what_ == COLL_ALL_GATHER || what_ == COLL_GATHER;
    for (int from = 0; from < size_; ++from) append(values, block(from, to_all ? 0 : to));
    return values;
  }
  static void append(Values& values, const Values& more) {
    values.insert(values.end(), more.begin(), more.end());
  }

  /// Makes this rank's buffers and what the result is to be.
  void prepare(int rank) {
    const bool at_root = rank == root_;
    std::size_t before = 0;  // elements of the blocks ahead of the rank's own
    for (int peer = 0; peer < rank; ++peer) {
      before +=
          what_ == COLL_ALL_GATHER || what_ == COLL_GATHER ? count(peer, rank) : count(rank, peer);
    }
    bool whole_result = false, whole_input = false;  // in place: which of both has all blocks
    switch (what_) {
      case COLL_ALL_REDUCE:
      case COLL_REDUCE:
        given_ = block(rank, 0);
        if (what_ == COLL_ALL_REDUCE || at_root) expected_ = reduced(0);
        in_place_ = in_place_ && !expected_.empty();
        break;
      case COLL_BROADCAST:
        if (at_root) given_ = block(root_, 0);
        expected_ = block(root_, 0);
        in_place_ = in_place_ && at_root;
        break;
      case COLL_ALL_GATHER:
      case COLL_GATHER:
        given_ = block(rank, 0);
        whole_result = what_ == COLL_ALL_GATHER || at_root;
        if (whole_result) expected_ = all_taken(rank);
        in_place_ = in_place_ && whole_result;
        break;
      case COLL_REDUCE_SCATTER:
      case COLL_SCATTER:
        whole_input = what_ == COLL_REDUCE_SCATTER || at_root;
        if (whole_input) given_ = all_given(rank);
        expected_ = what_ == COLL_SCATTER ? block(root_, rank) : reduced(rank);
        in_place_ = in_place_ && whole_input;
        break;
      case COLL_ALL_TO_ALL:
        given_ = all_given(rank);
        expected_ = all_taken(rank);
        in_place_ = false;
        break;
      default:
        if (at_root) given_ = block(root_, to_);
        if (rank == to_) expected_ = block(root_, to_);
        in_place_ = false;
    }
    result_.assign(expected_.size(), kUntouched);
    if (!in_place_) return;
    if (whole_result) {
      std::ranges::copy(given_, result_.begin() + static_cast<std::ptrdiff_t>(before));
      input_at_ = before;
    } else if (whole_input) {
      result_ = given_;
      Values all = given_;
      std::ranges::copy(expected_, all.begin() + static_cast<std::ptrdiff_t>(before));
      expected_ = all;
      result_at_ = before;
    } else {
      result_ = given_;
    }
  }
  [[nodiscard]] const std::int64_t* input() const {
    return in_place_ ? result_.data() + input_at_ : given_.data();
  }

  [[nodiscard]] std::string text(int rank) const {
    return "operation " + std::to_string(number_) + " (coll_operation_t " +
           std::to_string(static_cast<int>(what_)) + ") on rank " + std::to_string(rank) + " of " +
           std::to_string(size_) + ", root " + std::to_string(root_) + ", to " +
           std::to_string(to_) + (in_place_ ? ", in place" : "") + (unequal_ ? ", unequal" : "") +
           ", count " + std::to_string(counts_[0]);
  }

  int size_;
  std::int64_t number_;
  coll_operation_t what_;
  coll_op_t op_;
  int root_, to_;  ///< a send's are the two ranks
  bool in_place_, unequal_;
  std::vector<std::size_t> counts_;  ///< by giver and taker
  std::vector<std::size_t> gives_, takes_;
  Values given_, result_, expected_;
  std::size_t result_at_ = 0, input_at_ = 0;  ///< where the call's recv and send begin in result_
};

}  // namespace collectives::testing
