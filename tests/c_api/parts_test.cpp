// SPDX-License-Identifier: Apache-2.0
// Calls of many parts: each part ends as if it were a call of its own.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "communicator/rank_processes.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace {

coll_status_t run(const coll_call_t& call, coll_comm_t comm) {
  return coll_run(&call, comm);
}

coll_call_t call_of(coll_operation_t operation, const std::vector<coll_part_t>& parts,
                    int root = 0) {
  coll_call_t call = asked(operation, 0, COLL_INT64, root);
  call.parts = parts.data();
  call.part_count = parts.size();
  return call;
}

/// What a rank gives in element `i` of block `block` of a part.
std::int64_t given(int rank, std::size_t part, int block, std::size_t i) {
  return rank * 1'000'003 + static_cast<std::int64_t>(part * 7919 + i) * 31 + block * 104'729;
}

/// The buffers of one part of an operation on one rank, and what must be in them at the end.
class Part {
 public:
  Part(coll_operation_t operation, int root, int rank, int size, std::size_t number,
       std::size_t count, bool in_place)
      : operation_(operation),
        root_(root),
        rank_(rank),
        size_(size),
        number_(number),
        count_(count) {
    const int in = blocks(true), out = blocks(false);
    const bool shared = in_place && in != 0 && out != 0 && operation != COLL_ALL_TO_ALL;
    output_.assign(static_cast<std::size_t>(shared ? std::max(in, out) : out) * count, -1);
    if (!shared) input_.resize(static_cast<std::size_t>(in) * count);
    const std::size_t offset = in == out ? 0 : static_cast<std::size_t>(rank) * count;
    send_ = shared ? output_.data() + (in <= out ? offset : 0) : input_.data();
    recv_ = output_.data() + (shared && in > out ? offset : 0);
    std::int64_t* at = send_;
    for (int block = 0; block < in; ++block) {
      for (std::size_t i = 0; i < count; ++i) *at++ = given(rank, number, block, i);
    }
  }
  [[nodiscard]] coll_part_t as_given() const { return {send_, recv_, count_}; }

  [[nodiscard]] bool is_right() const {
    for (int block = 0; block < blocks(false); ++block) {
      for (std::size_t i = 0; i < count_; ++i) {
        if (recv_[static_cast<std::size_t>(block) * count_ + i] != expected(block, i)) return false;
      }
    }
    return true;
  }

 private:
  [[nodiscard]] int blocks(bool of_input) const {
    switch (operation_) {
      case COLL_REDUCE:
        return of_input || rank_ == root_ ? 1 : 0;
      case COLL_BROADCAST:
        return !of_input || rank_ == root_ ? 1 : 0;
      case COLL_ALL_GATHER:
        return of_input ? 1 : size_;
      case COLL_REDUCE_SCATTER:
        return of_input ? size_ : 1;
      case COLL_ALL_TO_ALL:
        return size_;
      case COLL_GATHER:
        return of_input ? 1 : (rank_ == root_ ? size_ : 0);
      case COLL_SCATTER:
        return of_input ? (rank_ == root_ ? size_ : 0) : 1;
      default:
        return 1;
    }
  }
  [[nodiscard]] std::int64_t expected(int block, std::size_t i) const {
    std::int64_t sum = 0;
    switch (operation_) {
      case COLL_BROADCAST:
        return given(root_, number_, 0, i);
      case COLL_ALL_GATHER:
      case COLL_GATHER:
        return given(block, number_, 0, i);
      case COLL_ALL_TO_ALL:
        return given(block, number_, rank_, i);
      case COLL_SCATTER:
        return given(root_, number_, rank_, i);
      default:
        for (int each = 0; each < size_; ++each) {
          sum += given(each, number_, operation_ == COLL_REDUCE_SCATTER ? rank_ : 0, i);
        }
        return sum;
    }
  }

  coll_operation_t operation_;
  int root_, rank_, size_;
  std::size_t number_, count_;
  std::vector<std::int64_t> input_, output_;
  std::int64_t *send_ = nullptr, *recv_ = nullptr;
};

/// Parts of drawn lengths, some of them empty, some in place.
std::vector<Part> drawn_parts(coll_operation_t operation, int root, int rank, int size,
                              std::mt19937_64& common, std::mt19937_64& own) {
  std::vector<Part> parts;
  const std::size_t number = common() % 20;
  parts.reserve(number);
  for (std::size_t i = 0; i < number; ++i) {
    const std::size_t count = common() % 5 == 0 ? 0 : common() % (i == 3 ? 5000 : 200);
    parts.emplace_back(operation, root, rank, size, i, count, own() % 3 == 0);
  }
  return parts;
}

std::vector<coll_part_t> as_given(const std::vector<Part>& parts) {
  std::vector<coll_part_t> list;
  for (const Part& part : parts) list.push_back(part.as_given());
  return list;
}

TEST(Parts, EveryOperation) {
  const std::uint64_t seed = coll::test::test_seed();
  for (const int size : {1, 2, 3, 5}) {
    run_ranks(size, [&, size](coll_comm_t comm, int rank) {
      std::mt19937_64 common(seed), own(seed + 1 + static_cast<std::uint64_t>(rank));
      for (int operation = COLL_ALL_REDUCE; operation <= COLL_SCATTER; ++operation) {
        const auto what = static_cast<coll_operation_t>(operation);
        for (int round = 0; round < 4; ++round) {
          const int root = static_cast<int>(common() % static_cast<unsigned>(size));
          const std::vector<Part> parts = drawn_parts(what, root, rank, size, common, own);
          const std::vector<coll_part_t> list = as_given(parts);
          coll_part_t none{};  // an empty list has an address, too
          coll_call_t call = call_of(what, list, root);
          if (list.empty()) call.parts = &none;
          ASSERT_TRUE(ok(run(call, comm)));
          for (const Part& part : parts) ASSERT_TRUE(part.is_right()) << operation << " " << size;
        }
      }
    });
  }
}

/// Several at once, on a stream whose earlier operation makes their input, and in a group.
TEST(Parts, InFlightTogetherAndOnStreams) {
  run_ranks(2, [](coll_comm_t comm, int) {
    Values first(3000, 1), second(17, 2), third(400, 3);
    const std::vector<coll_part_t> parts{{first.data(), first.data(), first.size()},
                                         {second.data(), second.data(), second.size()}};
    const std::vector<coll_part_t> others{{third.data(), third.data(), third.size()}};
    coll_stream_t stream = make_stream();
    const coll_call_t call = call_of(COLL_ALL_REDUCE, parts);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(ok(coll_start(&call, comm, stream, nullptr)));
    EXPECT_TRUE(ok(coll_group_start()));
    coll_work_t beside = start(call_of(COLL_ALL_REDUCE, others), comm);
    EXPECT_TRUE(ok(coll_start(&call, comm, stream, nullptr)));
    EXPECT_TRUE(ok(coll_group_end()));
    EXPECT_TRUE(ok(finish(beside)));
    EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    EXPECT_EQ(first, Values(3000, 16));
    EXPECT_EQ(second, Values(17, 32));
    EXPECT_EQ(third, Values(400, 6));
  });
}

std::uint64_t call_bytes(coll_comm_t comm) {
  coll_mem_stats_t stats = COLL_MEM_STATS_INIT;
  EXPECT_TRUE(ok(coll_comm_mem_stats(comm, &stats)));
  return stats.call_bytes;
}

/// They are not copied; what only overlaps itself in another way is.
TEST(Parts, ThatLieOneBehindAnotherAreUsedWhereTheyAre) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    Values in(1000), out(1000);
    const auto fill = [&](Values& values) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = given(rank, 0, 0, i);
    };
    const auto sum = [](std::size_t i) {
      return given(0, 0, 0, i) + given(1, 0, 0, i) + given(2, 0, 0, i);
    };
    const auto cut = [](std::int64_t* send, std::int64_t* recv) {
      return std::vector<coll_part_t>{{nullptr, nullptr, 0},
                                      {send, recv, 10},
                                      {send + 10, recv + 10, 900},
                                      {nullptr, nullptr, 0},
                                      {send + 910, recv + 910, 90}};
    };
    fill(in);
    EXPECT_TRUE(ok(run(call_of(COLL_ALL_REDUCE, cut(in.data(), out.data())), comm)));
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], sum(i));
    EXPECT_TRUE(ok(run(call_of(COLL_ALL_REDUCE, cut(in.data(), in.data())), comm)));
    EXPECT_EQ(in, out) << "in place";
    std::vector<coll_part_t> from_1 = cut(in.data(), out.data());
    if (rank != 1) {
      for (coll_part_t& part : from_1) part.send = nullptr;
    }
    fill(in);
    EXPECT_TRUE(ok(run(call_of(COLL_BROADCAST, from_1, 1), comm)));
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], given(1, 0, 0, i));
    EXPECT_EQ(call_bytes(comm), 0U) << "nothing was packed";
    const std::vector<coll_part_t> apart{{in.data(), out.data(), 10},
                                         {in.data() + 20, out.data() + 10, 10}};
    EXPECT_TRUE(ok(run(call_of(COLL_ALL_REDUCE, apart), comm)));
    for (std::size_t i = 0; i < 20; ++i) ASSERT_EQ(out[i], sum(i < 10 ? i : i + 10));
    EXPECT_GT(call_bytes(comm), 0U);
  });
}

TEST(Parts, AreMultipliedByTheFactor) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    const Values a(100, 2), b(7, 3);
    Values sum_a(100), sum_b(7), part_a(40), part_b(2);
    const std::int64_t factor = rank + 1;
    const std::vector<coll_part_t> sums{{a.data(), sum_a.data(), 100}, {b.data(), sum_b.data(), 7}};
    coll_call_t call = call_of(COLL_ALL_REDUCE, sums);
    call.factor = &factor;
    EXPECT_TRUE(ok(run(call, comm)));
    EXPECT_EQ(sum_a, Values(100, 12));
    EXPECT_EQ(sum_b, Values(7, 18));
    const std::vector<coll_part_t> scattered{{a.data(), part_a.data(), 33},
                                             {b.data(), part_b.data(), 2}};
    call = call_of(COLL_REDUCE_SCATTER, scattered);
    call.factor = &factor;
    EXPECT_TRUE(ok(run(call, comm)));
    part_a.resize(33);
    EXPECT_EQ(part_a, Values(33, 12));
    EXPECT_EQ(part_b, Values(2, 18));
    EXPECT_EQ(a, Values(100, 2)) << "the input stays";
  });
}

TEST(Parts, OfOtherLengthsOnAnotherRankAreAMismatch) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    Values a(100, 1), b(200, 1);
    std::vector<coll_part_t> parts{{a.data(), a.data(), 100}, {b.data(), b.data(), 200}};
    if (rank == 1) std::swap(parts[0], parts[1]);
    EXPECT_FALSE(wrong(rank, "order", run(call_of(COLL_ALL_REDUCE, parts), comm), COLL_MISMATCH,
                       "parts of the same counts"));
  });
  run_ranks(2, [](coll_comm_t comm, int rank) {
    Values a(100, 1);
    const std::vector<coll_part_t> parts{{a.data(), a.data(), 100}};
    const coll_status_t status =
        rank == 0 ? run(call_of(COLL_ALL_REDUCE, parts), comm) : all_reduce(a, a, comm);
    EXPECT_FALSE(wrong(rank, "form", status, COLL_MISMATCH, "all_reduce of parts #1 int64x100"));
  });
}

TEST(Parts, WhatHasNoMeaningIsRefused) {
  run_ranks(1, [](coll_comm_t comm, int) {
    Values a(10, 1);
    std::vector<coll_part_t> parts{{a.data(), a.data(), 5}, {a.data(), nullptr, 3}};
    const auto refused = [&](const coll_call_t& call, const char* why) {
      EXPECT_FALSE(wrong(0, "call", run(call, comm), COLL_INVALID_ARGUMENT, why));
    };
    refused(call_of(COLL_ALL_REDUCE, parts), "part 1: all_reduce: recv is null but 24 bytes");
    parts[1].recv = a.data() + 1;
    refused(call_of(COLL_ALL_REDUCE, parts), "part 1: all_reduce: send and recv overlap");
    parts[1].send = a.data() + 1;
    refused(call_of(COLL_ALL_REDUCE, parts), "recv of two parts overlaps");
    refused(call_of(COLL_SEND, parts), "send has no parts");
    refused(call_of(COLL_BARRIER, parts), "barrier has no parts");
    coll_call_t unequal = call_of(COLL_ALL_GATHER, parts);
    unequal.unequal = 1;
    refused(unequal, "all_gather of unequal blocks has no parts");
    parts[0].count = parts[1].count = ~std::size_t{0} / 2 + 1;
    refused(call_of(COLL_ALL_REDUCE, parts), "more elements than memory can hold");
  });
}

TEST(Parts, ArePredictedAsOneCall) {
  run_ranks(2, [](coll_comm_t comm, int) {
    const std::vector<coll_part_t> parts{{nullptr, nullptr, 100}, {nullptr, nullptr, 28}};
    const coll_prediction_t one = predicted(comm, asked(COLL_ALL_REDUCE, 128));
    const coll_prediction_t many = predicted(comm, call_of(COLL_ALL_REDUCE, parts));
    EXPECT_STREQ(many.algorithm, one.algorithm);
    EXPECT_EQ(many.bytes_sent, one.bytes_sent);
    EXPECT_EQ(many.microseconds, one.microseconds);
  });
}

}  // namespace
}  // namespace collectives::testing
