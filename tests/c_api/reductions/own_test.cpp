// SPDX-License-Identifier: Apache-2.0
// Reductions that the program brings itself.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <collectives/collectives.hpp>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "c_api/api_calls.hpp"
#include "c_api/api_ranks.hpp"
#include "communicator/rank_processes.hpp"
#include "communicator/test_memory.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace {

/// The map x -> scale * x + shift, modulo 2^32. To run one map after another is associative, and
/// does not commute.
struct Map {
  std::uint32_t scale = 1, shift = 0;
  friend bool operator==(const Map&, const Map&) = default;
};
Map after(const Map& left, const Map& right) {
  return {left.scale * right.scale, left.scale * right.shift + left.shift};
}

struct Seen {
  std::atomic<bool> misaligned{false};
};

template <class T, T (*combine)(const T&, const T&)>
void combine_all(void* context, const void* left, const void* right, void* result,
                 std::size_t count) {
  for (const void* at : {left, right, static_cast<const void*>(result)}) {
    if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T) != 0) {
      static_cast<Seen*>(context)->misaligned = true;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<T*>(result)[i] =
        combine(static_cast<const T*>(left)[i], static_cast<const T*>(right)[i]);
  }
}

coll_reduction_t running_maps(Seen& seen) {
  coll_reduction_t reduction = COLL_REDUCTION_INIT;
  reduction.combine = combine_all<Map, after>;
  reduction.context = &seen;
  reduction.name = "maps";
  return reduction;
}

coll_call_t call_of(coll_operation_t operation, const void* in, void* out, std::size_t count,
                    const coll_reduction_t& reduction, int root = 0) {
  coll_call_t call = asked(operation, count, COLL_UINT64, root);
  call.send = in;
  call.recv = out;
  call.reduction = &reduction;
  return call;
}

coll_status_t run(const coll_call_t& call, coll_comm_t comm) {
  return coll_run(&call, comm);
}

Map drawn(std::uint64_t seed, int rank, std::size_t i) {
  std::uint64_t x = seed + static_cast<std::uint64_t>(rank) * 0x9e3779b97f4a7c15U + i * 7919;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9U;
  return {static_cast<std::uint32_t>(x >> 32) | 1U, static_cast<std::uint32_t>(x)};
}

/// Maps at an address that is no multiple of anything.
class Unaligned {
 public:
  explicit Unaligned(std::size_t count) : bytes_(count * sizeof(Map) + 3) {}
  [[nodiscard]] std::byte* data() { return bytes_.data() + 3; }
  [[nodiscard]] Map at(std::size_t i) const {
    Map map;
    std::memcpy(&map, bytes_.data() + 3 + i * sizeof map, sizeof map);
    return map;
  }
  void set(std::size_t i, const Map& map) {
    std::memcpy(bytes_.data() + 3 + i * sizeof map, &map, sizeof map);
  }

 private:
  std::vector<std::byte> bytes_;
};

/// All operations, root and in place or not; the result is in the order of ranks.
void check_in_order(coll_comm_t comm, int rank, int size, std::size_t count, std::uint64_t seed) {
  Seen seen;
  const coll_reduction_t reduction = running_maps(seen);
  const auto expected = [&](std::size_t i) {
    Map all = drawn(seed, 0, i);
    for (int each = 1; each < size; ++each) all = after(all, drawn(seed, each, i));
    return all;
  };
  const auto own = static_cast<std::size_t>(rank), ranks = static_cast<std::size_t>(size);
  Unaligned in(count * ranks), out(count * ranks);
  const auto fill = [&](Unaligned& buffer) {
    for (std::size_t i = 0; i < count * ranks; ++i) buffer.set(i, drawn(seed, rank, i));
  };
  const auto holds = [&](const Unaligned& buffer, std::size_t at, std::size_t first,
                         std::size_t many) {
    for (std::size_t i = 0; i < many; ++i) {
      if (buffer.at(at + i) != expected(first + i)) return false;
    }
    return true;
  };
  fill(in);
  EXPECT_TRUE(ok(run(call_of(COLL_ALL_REDUCE, in.data(), out.data(), count, reduction), comm)));
  EXPECT_TRUE(holds(out, 0, 0, count));
  EXPECT_TRUE(ok(run(call_of(COLL_ALL_REDUCE, in.data(), in.data(), count, reduction), comm)));
  EXPECT_TRUE(holds(in, 0, 0, count)) << "in place";
  for (int root = 0; root < size; ++root) {
    fill(in);
    EXPECT_TRUE(ok(run(call_of(COLL_REDUCE, in.data(), out.data(), count, reduction, root), comm)));
    if (rank == root) {
      EXPECT_TRUE(holds(out, 0, 0, count)) << "root " << root;
    }
  }
  EXPECT_TRUE(ok(run(call_of(COLL_REDUCE_SCATTER, in.data(), out.data(), count, reduction), comm)));
  EXPECT_TRUE(holds(out, 0, own * count, count));
  // Blocks of other lengths: rank r has r + 1 elements of each n(n + 1) / 2.
  std::vector<std::size_t> counts;
  std::size_t before = 0, sum = 0;
  for (std::size_t each = 0; each < ranks; ++each) {
    counts.push_back((each + 1) * (count / (ranks + 1)));
    if (each < own) before += counts.back();
    sum += counts.back();
  }
  ASSERT_LE(sum, count * ranks);
  coll_call_t unequal = call_of(COLL_REDUCE_SCATTER, in.data(), out.data(), 0, reduction);
  unequal.unequal = 1;
  unequal.send_counts = counts.data();
  EXPECT_TRUE(ok(run(unequal, comm)));
  EXPECT_TRUE(holds(out, 0, before, counts[own]));
  EXPECT_FALSE(seen.misaligned) << "elements are aligned to their size";
}

TEST(OwnReduction, KeepsTheOrderOfRanksWhereItDoesNotCommute) {
  const std::uint64_t seed = coll::test::test_seed();
  for (const int size : {1, 2, 3, 4, 5, 8}) {
    run_ranks(size, [&, size](coll_comm_t comm, int rank) {
      for (const std::size_t count : {0U, 1U, 700U, 20'011U}) {
        SCOPED_TRACE(std::to_string(size) + " ranks, " + std::to_string(count) + " elements");
        check_in_order(comm, rank, size, count, seed);
      }
    });
  }
}

TEST(OwnReduction, KeepsTheOrderOverSockets) {
  const std::uint64_t seed = coll::test::test_seed();
  coll_config_t config = config_with();
  config.transports = "tcp";
  run_ranks(
      3, [&](coll_comm_t comm, int rank) { check_in_order(comm, rank, 3, 5003, seed); }, config);
  // Messages of a MiB, which come in parts.
  run_ranks(
      2, [&](coll_comm_t comm, int rank) { check_in_order(comm, rank, 2, 300'007, seed); }, config);
}

/// In place and not, in memory that the ranks read and write of each other.
TEST(OwnReduction, InMemoryFromTheLibrary) {
  const std::uint64_t seed = coll::test::test_seed();
  for (const int size : {2, 3}) {
    run_ranks(size, [&, size](coll_comm_t comm, int rank) {
      for (const bool commutes : {false, true}) {
        for (const std::size_t count : {500U, 20'011U, 300'007U}) {
          SCOPED_TRACE(std::to_string(size) + " ranks, " + std::to_string(count) + " elements");
          Seen seen;
          coll_reduction_t reduction = running_maps(seen);
          // Shifts commute, and other maps do not.
          reduction.commutative = commutes ? 1 : 0;
          const auto map = [&](int of, std::size_t i) {
            const Map any = drawn(seed, of, i);
            return commutes ? Map{1, any.shift} : any;
          };
          const TestMemory in(count * sizeof(Map), Kind::allocated);
          const TestMemory out(count * sizeof(Map), Kind::allocated);
          std::vector<Map> expected(count);
          for (std::size_t i = 0; i < count; ++i) {
            in.as<Map>()[i] = map(rank, i);
            expected[i] = map(0, i);
            for (int each = 1; each < size; ++each) expected[i] = after(expected[i], map(each, i));
          }
          for (Map* const result : {out.as<Map>(), in.as<Map>()}) {
            EXPECT_TRUE(
                ok(run(call_of(COLL_ALL_REDUCE, in.as<Map>(), result, count, reduction), comm)));
            EXPECT_TRUE(std::equal(expected.begin(), expected.end(), result))
                << (result == in.as<Map>() ? "in place" : "out of place");
          }
          EXPECT_FALSE(seen.misaligned);
        }
      }
    });
  }
}

/// The smallest value and who has it: 16 bytes a record.
struct Place {
  double value = 0;
  std::int64_t rank = 0;
  friend bool operator==(const Place&, const Place&) = default;
};
Place least(const Place& a, const Place& b) {
  return a.value < b.value || (a.value == b.value && a.rank < b.rank) ? a : b;
}

/// One that commutes may use every algorithm; it is an ordinary call beside that: on a stream, with
/// parts.
TEST(OwnReduction, OfRecordsThatCommutes) {
  run_ranks(3, [](coll_comm_t comm, int rank) {
    Seen seen;
    coll_reduction_t reduction = COLL_REDUCTION_INIT;
    reduction.commutative = 1;
    reduction.combine = combine_all<Place, least>;
    reduction.context = &seen;
    const auto value = [](int of, std::size_t i) {
      return static_cast<double>((static_cast<std::size_t>(of) * 5 + i) % 3);
    };
    for (const std::size_t count : {1U, 3000U, 100'000U}) {
      std::vector<Place> in(count), out(count), expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        in[i] = {value(rank, i), rank};
        expected[i] = least(least({value(0, i), 0}, {value(1, i), 1}), {value(2, i), 2});
      }
      coll_call_t call = call_of(COLL_ALL_REDUCE, in.data(), out.data(), count, reduction);
      call.type = COLL_COMPLEX128;
      coll_stream_t stream = make_stream();
      EXPECT_TRUE(ok(coll_start(&call, comm, stream, nullptr)));
      EXPECT_TRUE(ok(coll_stream_destroy(stream)));
      EXPECT_EQ(out, expected);
      const std::vector<coll_part_t> parts{{in.data(), out.data(), count / 2},
                                           {&in[count / 2], &out[count / 2], count - count / 2}};
      out.assign(count, {});
      call.parts = parts.data();
      call.part_count = parts.size();
      EXPECT_TRUE(ok(run(call, comm)));
      EXPECT_EQ(out, expected);
    }
    EXPECT_FALSE(seen.misaligned);
  });
}

TEST(OwnReduction, InCpp) {
  coll_unique_id_t id;
  ASSERT_TRUE(ok(coll_get_unique_id(&id)));
  const auto run_rank = [&id](int rank) {
    auto joined = collectives::Communicator::join(id, 3, rank);
    ASSERT_TRUE(joined.ok()) << joined.error().text;
    collectives::Communicator& communicator = *joined;
    std::vector<Map> maps(1000, Map{2, static_cast<std::uint32_t>(rank)});
    std::atomic<std::uint32_t> calls{0};
    const auto counted = [&calls](const Map& left, const Map& right) {
      ++calls;
      return after(left, right);
    };
    auto group = collectives::Group::start();
    ASSERT_TRUE(group.ok());
    EXPECT_TRUE(communicator.all_reduce_by<Map>(maps, counted, false, "maps").ok());
    EXPECT_TRUE(group->end().ok()) << "a group runs it later";
    EXPECT_GE(calls, 1000U);
    EXPECT_EQ(maps, std::vector<Map>(1000, after({2, 0}, after({2, 1}, {2, 2}))));
    std::vector<float> a(10, 1), b(20'000, 2);
    const std::span<float> parts[] = {a, b};
    EXPECT_TRUE(communicator.all_reduce_parts<float>(parts, COLL_MAX).ok());
    EXPECT_TRUE(communicator.all_reduce_parts<float>({}, COLL_MAX).ok());
    EXPECT_EQ(b, std::vector<float>(20'000, 2));
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) threads.emplace_back(run_rank, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(OwnReduction, IsPlannedInOrderOnlyWhereItMustBe) {
  const std::set<std::string> with_sides{"one_shot_ordered", "two_shot_ordered",
                                         "recursive_doubling", "recursive_halving_doubling"};
  for (const int size : {2, 3, 4}) {
    run_ranks(size, [&](coll_comm_t comm, int) {
      Seen seen;
      coll_reduction_t reduction = running_maps(seen);
      for (std::size_t count = 1; count <= 1 << 22; count *= 8) {
        const coll_call_t call = call_of(COLL_ALL_REDUCE, nullptr, nullptr, count, reduction);
        const std::string algorithm = predicted(comm, call).algorithm;
        EXPECT_TRUE(with_sides.contains(algorithm)) << algorithm;
        EXPECT_NE(explained(comm, call).find("in the order of the tree"), std::string::npos);
        reduction.commutative = 1;
        EXPECT_STREQ(predicted(comm, call).algorithm,
                     predicted(comm, asked(COLL_ALL_REDUCE, count)).algorithm);
        reduction.commutative = 0;
      }
    });
  }
}

TEST(OwnReduction, OfAnotherNameIsAMismatch) {
  run_ranks(2, [](coll_comm_t comm, int rank) {
    Seen seen;
    coll_reduction_t reduction = running_maps(seen);
    if (rank == 1) reduction.name = "other maps";
    std::vector<Map> data(10);
    EXPECT_FALSE(
        wrong(rank, "name",
              run(call_of(COLL_ALL_REDUCE, data.data(), data.data(), data.size(), reduction), comm),
              COLL_MISMATCH, "reductions of the same name"));
  });
  run_ranks(2, [](coll_comm_t comm, int rank) {
    Seen seen;
    coll_reduction_t reduction = running_maps(seen);
    reduction.commutative = rank;
    std::vector<Map> data(10);
    EXPECT_FALSE(
        wrong(rank, "sides",
              run(call_of(COLL_ALL_REDUCE, data.data(), data.data(), data.size(), reduction), comm),
              COLL_MISMATCH, "own in order"));
  });
}

TEST(OwnReduction, WhatHasNoMeaningIsRefused) {
  run_ranks(1, [](coll_comm_t comm, int) {
    Seen seen;
    coll_reduction_t reduction = running_maps(seen);
    std::vector<Map> data(10, Map{3, 4});
    coll_call_t call = call_of(COLL_ALL_REDUCE, data.data(), data.data(), 10, reduction);
    const auto refused = [&](const char* why) {
      EXPECT_FALSE(wrong(0, "call", run(call, comm), COLL_INVALID_ARGUMENT, why));
    };
    const std::uint64_t factor = 2;
    call.factor = &factor;
    refused("a factor belongs to a sum");
    call.factor = nullptr;
    reduction.combine = nullptr;
    refused("the reduction has no function");
    reduction = running_maps(seen);
    reduction.version = 0;
    refused("COLL_REDUCTION_INIT");
    call.operation = COLL_BROADCAST;
    EXPECT_TRUE(ok(run(call, comm))) << "it has none, whatever the member says";
    for (const int op : {0xfd, 0xfe, 0xff}) {
      EXPECT_FALSE(wrong(0, "op",
                         coll_all_reduce(data.data(), data.data(), 10, COLL_UINT64,
                                         static_cast<coll_op_t>(op), comm, nullptr),
                         COLL_INVALID_ARGUMENT, "unknown op"));
    }
    EXPECT_EQ(data, std::vector<Map>(10, Map{3, 4}));
  });
}

}  // namespace
}  // namespace collectives::testing
