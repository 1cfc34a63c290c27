// SPDX-License-Identifier: Apache-2.0
// One drawn operation: the same on all ranks by the same random numbers, with buffers of its own
// and an oracle.
#pragma once
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "c_api/api_calls.hpp"
#include "random_part.hpp"

namespace collectives::testing {

/// Any operation: with equal or unequal blocks, in place or not, in parts, with a factor, with a
/// tag; of any type and reduction whose results are exact.
class RandomOperation {
 public:
  /// Drawn for a communicator of `size` ranks; `number` is another one for each operation.
  RandomOperation(std::mt19937_64& random, int size, std::int64_t number)
      : number_(number), call_(draw_call(random, size)) {
    if (call_.what == COLL_SEND) {
      tagged_ = random() % 2 == 0;
      any_source_ = tagged_ && random() % 3 == 0;
      call_.longer = tagged_ && random() % 3 == 0 ? random() % 50 : 0;
    }
    const bool whole = call_.unequal || call_.what == COLL_SEND || call_.what == COLL_BARRIER;
    const std::size_t parts = whole || random() % 4 != 0 ? 1 : 2 + random() % 4;
    for (std::size_t i = 0; i < parts; ++i) {
      const bool in_place = random() % 3 == 0;
      parts_.emplace_back(call_, number * 31 + static_cast<std::int64_t>(i), draw_counts(random),
                          in_place);
    }
    factor_late_ = random() % 2 == 0;
  }

  /// Has this rank a part in it?
  [[nodiscard]] bool concerns(int rank) const {
    return call_.what != COLL_SEND || rank == call_.root || rank == call_.to;
  }

  /// Starts this rank's calls, a send to itself and its recv inside a group; each gets a handle if
  /// there are to be `works`.
  void start(coll_comm_t comm, int rank, coll_stream_t stream, std::vector<coll_work_t>* works) {
    coll_call_t call = COLL_CALL_INIT;
    for (RandomPart& part : parts_) {
      part.prepare(rank);
      given_.push_back({part.send(), part.recv(), part.own_count()});
    }
    call.operation = call_.what;
    call.type = call_.type.get();
    call.op = call_.op;
    call.root = call_.root;
    call.send = given_[0].send;
    call.recv = given_[0].recv;
    call.count = given_[0].count;
    if (given_.size() > 1) {
      call.parts = given_.data();
      call.part_count = given_.size();
    }
    if (call_.unequal) {
      call.unequal = 1;
      for (int peer = 0; peer < call_.size; ++peer) {
        gives_.push_back(parts_[0].count(rank, peer));
        takes_.push_back(parts_[0].count(peer, rank));
      }
      call.send_counts = gives_.data();
      call.recv_counts = takes_.data();
    }
    if (call_.scaled) {
      factor_ = call_.factor(rank);
      call.factor = &factor_;
      call.factor_late = factor_late_ ? 1 : 0;
    }
    if (tagged_) {
      call.tagged = 1;
      call.tag = static_cast<int>(number_);
    }
    if (call_.what != COLL_SEND) return issue(call, comm, rank, stream, works);
    if (rank == call_.root) {
      call.count = parts_[0].count(call_.root, call_.to);
      call.root = call_.to;
      issue(call, comm, rank, stream, works);
    }
    if (rank == call_.to) {
      call.operation = COLL_RECV;
      call.count = parts_[0].count(call_.root, call_.to) + call_.longer;
      call.root = any_source_ ? COLL_ANY_SOURCE : call_.root;
      if (tagged_) call.message = &message_;
      issue(call, comm, rank, stream, works);
    }
  }

  /// After its end.
  void check(int rank) const {
    for (const RandomPart& part : parts_) EXPECT_TRUE(part.is_right()) << text(rank);
    if (!tagged_ || rank != call_.to) return;
    EXPECT_EQ(message_.source, call_.root) << text(rank);
    EXPECT_EQ(message_.tag, number_) << text(rank);
    EXPECT_EQ(message_.count, parts_[0].count(call_.root, call_.to)) << text(rank);
    EXPECT_EQ(message_.type, call_.type.get()) << text(rank);
  }

  [[nodiscard]] bool is_send_to_itself() const {
    return call_.what == COLL_SEND && call_.root == call_.to;
  }

 private:
  static DrawnCall draw_call(std::mt19937_64& random, int size) {
    static constexpr coll_operation_t kAll[] = {
        COLL_ALL_REDUCE,     COLL_REDUCE,     COLL_BROADCAST, COLL_ALL_GATHER,
        COLL_REDUCE_SCATTER, COLL_ALL_TO_ALL, COLL_GATHER,    COLL_SCATTER,
        COLL_SEND,           COLL_SEND,       COLL_SEND,      COLL_BARRIER};
    const auto draw_rank = [&] {
      return static_cast<int>(random() % static_cast<std::uint64_t>(size));
    };
    DrawnCall call;
    call.what = kAll[random() % std::size(kAll)];
    call.type = ExactType(ExactType::kAll[random() % std::size(ExactType::kAll)]);
    call.op = ExactType::kOps[random() % std::size(ExactType::kOps)];
    call.size = size;
    call.root = draw_rank();
    call.to = draw_rank();
    call.unequal = call.has_blocks() && random() % 2 == 0;
    call.scaled =
        call.reduces() && call.op == COLL_SUM && call.type.get() != COLL_BOOL && random() % 2 == 0;
    return call;
  }

  std::vector<std::size_t> draw_counts(std::mt19937_64& random) const {
    const std::size_t most = random() % 4 == 0 ? 30'000 : 100;
    const std::size_t alike = random() % most;
    std::vector<std::size_t> counts(static_cast<std::size_t>(call_.size * call_.size), alike);
    if (call_.unequal) {
      for (std::size_t& count : counts) count = random() % most;
    }
    return counts;
  }

  void issue(const coll_call_t& call, coll_comm_t comm, int rank, coll_stream_t stream,
             std::vector<coll_work_t>* works) const {
    coll_work_t work = nullptr;
    EXPECT_TRUE(ok(coll_start(&call, comm, stream, works != nullptr ? &work : nullptr)))
        << text(rank);
    if (works != nullptr) works->push_back(work);
  }

  [[nodiscard]] std::string text(int rank) const {
    std::string text = "operation " + std::to_string(number_) + " (coll_operation_t " +
                       std::to_string(call_.what) + ", coll_op_t " + std::to_string(call_.op) +
                       ", coll_dtype_t " + std::to_string(call_.type.get()) + ") on rank " +
                       std::to_string(rank) + " of " + std::to_string(call_.size) + ", root " +
                       std::to_string(call_.root) + ", to " + std::to_string(call_.to);
    if (tagged_) text += any_source_ ? ", tagged, any source" : ", tagged";
    if (call_.unequal) text += ", unequal";
    if (call_.scaled) text += factor_late_ ? ", late factor" : ", factor";
    for (const RandomPart& part : parts_) {
      text += ", count " + std::to_string(part.count(0, 0));
      if (part.in_place()) text += " in place";
    }
    return text;
  }

  std::int64_t number_;
  DrawnCall call_;
  std::vector<RandomPart> parts_;  ///< one, if the call is whole
  bool tagged_ = false, any_source_ = false, factor_late_ = false;
  // What the call points to.
  std::vector<coll_part_t> given_;
  std::vector<std::size_t> gives_, takes_;
  std::int64_t factor_ = 0;  ///< its low bytes are the element
  coll_message_t message_ = COLL_MESSAGE_INIT;
};

}  // namespace collectives::testing
