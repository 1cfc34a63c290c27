// SPDX-License-Identifier: Apache-2.0
// Operations on blocks of unequal lengths: random ones, on all numbers of ranks, against a plain
// loop.
#include <collectives/collectives.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "api_calls.hpp"
#include "api_ranks.hpp"
#include "test_seed.hpp"

namespace collectives::testing {
namespace {

using Counts = std::vector<std::size_t>;

constexpr std::int64_t kUntouched = -77;

/// Where each rank's block lies in a buffer.
struct Places {
  Counts counts, displs;
  std::size_t length = 0;  ///< of the buffer
  bool packed = false;     ///< the displacements are what a null pointer means

  [[nodiscard]] const std::size_t* given() const { return packed ? nullptr : displs.data(); }
};

/// Blocks of these lengths, one after another, or in any order with holes.
Places places_of(const Counts& counts, std::mt19937_64& random) {
  Places places{.counts = counts, .displs = Counts(counts.size())};
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  places.packed = random() % 2 == 0;
  if (!places.packed) std::ranges::shuffle(order, random);
  for (const std::size_t block : order) {
    if (!places.packed) places.length += random() % 5;
    places.displs[block] = places.length;
    places.length += counts[block];
  }
  return places;
}

/// All sorts: nothing, a few, some windows.
std::size_t random_count(std::mt19937_64& random) {
  switch (random() % 5) {
    case 0:
      return 0;
    case 1:
      return 1 + random() % 9;
    case 2:
      return 1 + random() % 2000;
    case 3:
      return 4096;
    default:
      return random() % 40000;
  }
}

/// The element that a rank gives for another at a place of their block.
std::int64_t element(int from, int to, std::size_t at) {
  return (from + 1) * 1000003 + (to + 1) * 7919 + static_cast<std::int64_t>(at % 1009);
}

/// One operation on all ranks, the same by the same seed.
class Sample {
 public:
  enum class What { all_gather, reduce_scatter, all_to_all, gather, scatter };

  Sample(std::uint64_t seed, int size) : random_(seed), size_(size) {
    what_ = static_cast<What>(random_() % 5);
    root_ = static_cast<int>(random_() % static_cast<std::uint64_t>(size));
    in_place_ = random_() % 3 == 0;
    how_ = static_cast<int>(random_() % 3);
    counts_.resize(static_cast<std::size_t>(size));
    for (Counts& row : counts_) {
      for (int to = 0; to < size; ++to) row.push_back(random_count(random_));
    }
  }

  /// Calls it as `rank`, and compares.
  void run(coll_comm_t comm, int rank) {
    std::mt19937_64 random(random_());
    random.discard(static_cast<unsigned long long>(rank));  // displacements are a rank's own
    const Counts& list = counts_[0];                        // of all but all_to_all
    const auto own = static_cast<std::size_t>(rank);
    Counts gives, takes;
    for (int peer = 0; peer < size_; ++peer) {
      const auto other = static_cast<std::size_t>(peer);
      gives.push_back(counts_[own][other]);
      takes.push_back(counts_[other][own]);
    }
    const bool at_root = rank == root_;
    const Places all = places_of(list, random);
    const Places sent = places_of(gives, random), received = places_of(takes, random);
    Values send, recv;
    std::size_t recv_at = 0;  // where the result begins in `recv`
    const std::int64_t* input = nullptr;
    Values expected;
    switch (what_) {
      case What::all_gather:
      case What::gather: {
        const bool result = what_ == What::all_gather || at_root;
        if (result) recv.assign(all.length, kUntouched);
        expected = recv;
        for (int from = 0; result && from < size_; ++from) {
          const auto block = static_cast<std::size_t>(from);
          for (std::size_t i = 0; i < list[block]; ++i) {
            expected[all.displs[block] + i] = element(from, 0, i);
          }
        }
        for (std::size_t i = 0; i < list[own]; ++i) send.push_back(element(rank, 0, i));
        input = send.data();
        if (in_place_ && result) {
          std::ranges::copy(send, recv.begin() + static_cast<std::ptrdiff_t>(all.displs[own]));
          input = recv.data() + all.displs[own];
        }
        break;
      }
      case What::reduce_scatter:
      case What::scatter: {
        const bool gives_all = what_ == What::reduce_scatter || at_root;
        if (gives_all) send.assign(all.length, 5);
        for (int to = 0; gives_all && to < size_; ++to) {
          const auto block = static_cast<std::size_t>(to);
          for (std::size_t i = 0; i < list[block]; ++i) {
            send[all.displs[block] + i] = element(rank, to, i);
          }
        }
        recv.assign(list[own], kUntouched);
        for (std::size_t i = 0; i < list[own]; ++i) {
          std::int64_t sum = 0;
          for (int from = 0; from < size_; ++from) sum += element(from, rank, i);
          expected.push_back(what_ == What::scatter ? element(root_, rank, i) : sum);
        }
        if (in_place_ && gives_all) {
          recv_at = all.displs[own];
          recv = send;
          Values whole = what_ == What::scatter ? send : Values();
          if (!whole.empty()) {
            std::ranges::copy(expected, whole.begin() + static_cast<std::ptrdiff_t>(recv_at));
            expected = whole;
          }
        }
        input = in_place_ && gives_all ? recv.data() : send.data();
        break;
      }
      case What::all_to_all:
        send.assign(sent.length, 5);
        recv.assign(received.length, kUntouched);
        expected = recv;
        for (int peer = 0; peer < size_; ++peer) {
          const auto block = static_cast<std::size_t>(peer);
          for (std::size_t i = 0; i < gives[block]; ++i) {
            send[sent.displs[block] + i] = element(rank, peer, i);
          }
          for (std::size_t i = 0; i < takes[block]; ++i) {
            expected[received.displs[block] + i] = element(peer, rank, i);
          }
        }
        input = send.data();
    }
    const Values before = send;
    std::int64_t* const output = recv.data() + recv_at;
    EXPECT_TRUE(ok(call(comm, input, output, list[own], all, sent, received))) << text(rank);
    if (what_ == What::reduce_scatter && recv_at + expected.size() <= recv.size() && in_place_) {
      // What an in-place reduction leaves in the other blocks is its own affair.
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), output)) << text(rank);
    } else {
      EXPECT_TRUE(recv == expected) << text(rank);
    }
    EXPECT_TRUE(send == before) << "the input has changed: " << text(rank);
  }

  [[nodiscard]] std::string text(int rank) const {
    static constexpr const char* kNames[] = {"all_gatherv", "reduce_scatterv", "all_to_allv",
                                             "gatherv", "scatterv"};
    std::string line = std::string(kNames[static_cast<int>(what_)]) + " on rank " +
                       std::to_string(rank) + " of " + std::to_string(size_) + ", root " +
                       std::to_string(root_) + (in_place_ ? ", in place" : "") + ", counts";
    for (const std::size_t count : counts_[0]) line += " " + std::to_string(count);
    return line;
  }

 private:
  coll_status_t call(coll_comm_t comm, const std::int64_t* input, std::int64_t* output,
                     std::size_t own, const Places& all, const Places& sent,
                     const Places& received) const {
    coll_stream_t stream = nullptr;
    if (how_ == 1 && coll_stream_create(&stream) != COLL_SUCCESS) return COLL_INTERNAL;
    coll_status_t status = COLL_INTERNAL;
    if (how_ == 2) {
      status = start(comm, input, output, own, all, sent, received);
    } else {
      const auto type = COLL_INT64;
      switch (what_) {
        case What::all_gather:
          status =
              coll_all_gatherv(input, output, all.counts.data(), all.given(), type, comm, stream);
          break;
        case What::reduce_scatter:
          status = coll_reduce_scatterv(input, output, all.counts.data(), all.given(), type,
                                        COLL_SUM, comm, stream);
          break;
        case What::all_to_all:
          status = coll_all_to_allv(input, sent.counts.data(), sent.given(), output,
                                    received.counts.data(), received.given(), type, comm, stream);
          break;
        case What::gather:
          status = coll_gatherv(input, own, output, all.counts.data(), all.given(), type, root_,
                                comm, stream);
          break;
        case What::scatter:
          status = coll_scatterv(input, all.counts.data(), all.given(), output, own, type, root_,
                                 comm, stream);
      }
    }
    if (stream != nullptr) {
      const coll_status_t done = coll_stream_synchronize(stream);
      if (status == COLL_SUCCESS) status = done;
      EXPECT_TRUE(ok(coll_stream_destroy(stream)));
    }
    return status;
  }

  coll_status_t start(coll_comm_t comm, const std::int64_t* input, std::int64_t* output,
                      std::size_t own, const Places& all, const Places& sent,
                      const Places& received) const {
    static constexpr coll_operation_t kOperations[] = {COLL_ALL_GATHER, COLL_REDUCE_SCATTER,
                                                       COLL_ALL_TO_ALL, COLL_GATHER, COLL_SCATTER};
    const bool each = what_ == What::all_to_all;
    coll_call_t call = COLL_CALL_INIT;
    call.operation = kOperations[static_cast<int>(what_)];
    call.unequal = 1;
    call.send = input;
    call.recv = output;
    call.count = own;
    call.type = COLL_INT64;
    call.root = root_;
    call.send_counts = each ? sent.counts.data() : all.counts.data();
    call.send_displs = each ? sent.given() : all.given();
    call.recv_counts = each ? received.counts.data() : all.counts.data();
    call.recv_displs = each ? received.given() : all.given();
    coll_work_t work = nullptr;
    if (const auto status = coll_start(&call, comm, nullptr, &work); status != COLL_SUCCESS) {
      return status;
    }
    const coll_status_t status = coll_work_wait(work, -1);
    EXPECT_TRUE(ok(coll_work_free(work)));
    return status;
  }

  std::mt19937_64 random_;
  int size_;
  What what_;
  int root_;
  bool in_place_;
  int how_;  ///< blocking, on a stream, by a handle
  std::vector<Counts> counts_;
};

/// Over a transport, with the algorithms of the planner's choice or with others.
#ifdef SANITIZED
constexpr std::uint64_t kSamples = 15;
#else
constexpr std::uint64_t kSamples = 40;
#endif

void run_samples(const char* transports, const char* algorithms) {
  const std::uint64_t seed = coll::test::test_seed();
  coll_config_t config = config_with();
  config.transports = transports;
  config.algorithm = algorithms;
  for (const int size : {1, 2, 3, 4, 5, 7}) {
    if (size == 1 && algorithms != nullptr) continue;  // has nothing to choose
    run_ranks(
        size,
        [&](coll_comm_t comm, int rank) {
          for (std::uint64_t i = 0; i < kSamples && !::testing::Test::HasFailure(); ++i) {
            Sample(seed + 1000 * static_cast<std::uint64_t>(size) + i, size).run(comm, rank);
          }
        },
        config);
  }
}

TEST(UnequalSamples, AnyLengthsAreRightOverSharedMemory) {
  run_samples("shm", nullptr);
  run_samples("shm", "ring,all_to_all=pairwise");
  run_samples("shm", "bruck,reduce_scatter=pairwise");
}

TEST(UnequalSamples, AnyLengthsAreRightOverTcp) {
  run_samples("tcp", nullptr);
  run_samples("tcp", "one_shot/2x4096");
}

}  // namespace
}  // namespace collectives::testing
