// SPDX-License-Identifier: Apache-2.0
// Ranks as processes whose buffers are from coll_mem_alloc, registered, or neither, or some of
// each.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <collectives/collectives.hpp>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "exact_oracle.hpp"
#include "rank_processes.hpp"
#include "schedule/chunk_map.hpp"
#include "test_memory.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

using collectives::testing::join;
using collectives::testing::Meetings;
using collectives::testing::RankProcesses;
using collectives::testing::wrong;

enum class Shared : std::uint8_t { nothing, everything, inputs, outputs, some };
using collectives::testing::Kind;
using collectives::testing::TestMemory;

/// One operation's arguments, drawn alike on all ranks. `send` is all ranks' to the next one.
struct Sample {
  Collective collective = Collective::barrier;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  Rank root = 0;
  std::uint64_t count = 0;
  bool in_place = false;
  Shared shared = Shared::nothing;
  std::uint64_t data = 0;

  /// Of this buffer of the rank.
  [[nodiscard]] Kind kind(Rank rank, bool input) const {
    const std::uint64_t drawn = data >> (4 * rank + (input ? 2 : 0));
    const Kind shared_kind = (drawn & 1) != 0 ? Kind::allocated : Kind::registered;
    switch (shared) {
      case Shared::nothing:
        return Kind::heap;
      case Shared::everything:
        return shared_kind;
      case Shared::inputs:
        return input ? shared_kind : Kind::heap;
      case Shared::outputs:
        return input ? Kind::heap : shared_kind;
      case Shared::some:
        return (drawn & 2) != 0 ? shared_kind : Kind::heap;
    }
    return Kind::heap;
  }
};

std::ostream& operator<<(std::ostream& out, const Sample& sample) {
  return out << name_of(sample.collective) << " of " << sample.count << " " << name_of(sample.type)
             << " " << name_of(sample.op) << " root " << sample.root
             << (sample.in_place ? " in place" : "") << ", shared "
             << static_cast<int>(sample.shared) << ", data " << sample.data;
}

constexpr std::array kDrawn{
    Collective::all_reduce, Collective::reduce,         Collective::broadcast,
    Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all,
    Collective::gather,     Collective::scatter,        Collective::send};

Sample draw(std::mt19937_64& random, Rank ranks) {
  constexpr std::array kTypes{DataType::uint8, DataType::bfloat16, DataType::float32,
                              DataType::int64};
  Sample sample;
  sample.collective = kDrawn[random() % kDrawn.size()];
  sample.type = kTypes[random() % kTypes.size()];
  sample.op = random() % 4 == 0 ? ReduceOp::max : ReduceOp::sum;
  sample.root = static_cast<Rank>(random() % static_cast<std::uint64_t>(ranks));
  const std::uint64_t most = (std::uint64_t{3} << 20) >> random() % 22;  // bytes, from 1 to 3 MiB
  sample.count = random() % std::max<std::uint64_t>(most / size_of(sample.type), 1) + 1;
  const bool has_place =
      sample.collective != Collective::all_to_all && sample.collective != Collective::send;
  sample.in_place = has_place && random() % 2 == 0;
  sample.shared = static_cast<Shared>(random() % 5);
  sample.data = random();
  return sample;
}

/// A buffer somewhere inside an allocation that lives no longer than it.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t at, Kind kind)
      : at_(at + kGuard), memory_(at_ + bytes + kGuard, kind), all_(memory_.bytes()) {
    std::ranges::fill(all_, kMark);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::ranges::fill(all_, std::byte{0xee}); }  // a late reader shall see it

  [[nodiscard]] std::byte* data() const { return all_.data() + at_; }
  [[nodiscard]] bool holds(std::size_t offset, const std::vector<std::byte>& what) const {
    return std::equal(what.begin(), what.end(), data() + offset);
  }
  [[nodiscard]] bool intact_around() const {
    const auto marked = [](std::byte byte) { return byte == kMark; };
    return std::all_of(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(at_), marked) &&
           std::all_of(all_.end() - kGuard, all_.end(), marked);
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 64;
  static constexpr std::byte kMark{0xa5};
  std::size_t at_;
  TestMemory memory_;
  std::span<std::byte> all_;
};

coll_status_t call(const Sample& sample, Rank rank, Rank ranks, const void* in, void* out,
                   coll_comm_t comm) {
  const auto type = static_cast<coll_dtype_t>(sample.type);
  const auto op = static_cast<coll_op_t>(sample.op);
  const std::size_t count = sample.count;
  switch (sample.collective) {
    case Collective::all_reduce:
      return coll_all_reduce(in, out, count, type, op, comm, nullptr);
    case Collective::reduce:
      return coll_reduce(in, out, count, type, op, sample.root, comm, nullptr);
    case Collective::broadcast:
      return coll_broadcast(in, out, count, type, sample.root, comm, nullptr);
    case Collective::all_gather:
      return coll_all_gather(in, out, count, type, comm, nullptr);
    case Collective::reduce_scatter:
      return coll_reduce_scatter(in, out, count, type, op, comm, nullptr);
    case Collective::all_to_all:
      return coll_all_to_all(in, out, count, type, comm, nullptr);
    case Collective::gather:
      return coll_gather(in, out, count, type, sample.root, comm, nullptr);
    case Collective::scatter:
      return coll_scatter(in, out, count, type, sample.root, comm, nullptr);
    default: {
      const auto send = [&] {
        return coll_send(in, count, type, (rank + 1) % ranks, comm, nullptr);
      };
      const auto recv = [&] {
        return coll_recv(out, count, type, (rank + ranks - 1) % ranks, comm, nullptr);
      };
      const bool sends_first = rank % 2 == 0;
      const coll_status_t status = sends_first ? send() : recv();
      if (status != COLL_SUCCESS) return status;
      return sends_first ? recv() : send();
    }
  }
}

/// 0, or what the process shall exit with.
int run_sample(const Sample& sample, Rank rank, Rank ranks, std::mt19937_64& places,
               coll_comm_t comm) {
  const bool shifts = sample.collective == Collective::send;
  const std::size_t block = sample.count * size_of(sample.type);
  const BlockShape shape = shifts ? BlockShape{.input = 1, .output = 1}
                                  : block_shape(sample.collective, ranks, sample.root, rank);
  const auto input_of = [&](Rank of, std::uint64_t elements) {
    return make_input(sample.type, sample.op, ranks, of, elements, sample.data);
  };
  const std::vector<std::byte> input = input_of(rank, sample.count * shape.input);
  const std::vector<std::byte> expected =
      shifts ? input_of((rank + ranks - 1) % ranks, sample.count)
             : expected_output(sample.collective, sample.type, sample.op, ranks, sample.root, rank,
                               sample.count, sample.data);
  const InPlace rule = shifts ? InPlace{} : in_place(sample.collective, ranks, sample.root, rank);
  const bool in_place = sample.in_place && rule.allowed;
  const std::size_t offset = in_place ? rule.offset_blocks * block : 0;
  const std::size_t input_at = rule.input_inside_output ? offset : 0;
  const std::size_t output_at = rule.input_inside_output ? 0 : offset;

  const Buffer first(in_place ? std::max(input.size(), expected.size()) : input.size(),
                     places() % 5000, sample.kind(rank, true));
  const Buffer second(in_place ? 0 : expected.size(), places() % 5000, sample.kind(rank, false));
  const Buffer& results = in_place ? first : second;
  std::ranges::copy(input, first.data() + input_at);
  const coll_status_t status =
      call(sample, rank, ranks, first.data() + input_at, results.data() + output_at, comm);
  const auto bad = [&](bool is, const char* what) {
    if (is)
      std::cerr << "rank " << rank << " of " << ranks << ": " << what << ": " << sample << "\n";
    return is;
  };
  if (bad(status != COLL_SUCCESS, coll_last_error())) return 2;
  const bool is_wrong =
      bad(!results.holds(output_at, expected), "wrong result") ||
      bad(!in_place && !first.holds(0, input), "the input has changed") ||
      bad(!first.intact_around() || !second.intact_around(), "wrote outside of a buffer");
  return is_wrong ? 3 : 0;
}

int run_samples(const std::string& place, Rank rank, Rank ranks, int samples, std::uint64_t seed) {
  const coll_comm_t comm = join(place, "shm", ranks, rank);
  if (comm == nullptr) return 2;
  std::mt19937_64 random(seed);
  std::mt19937_64 places(seed + static_cast<std::uint64_t>(rank));
  for (int i = 0; i < samples; ++i) {
    if (const int code = run_sample(draw(random, ranks), rank, ranks, places, comm)) {
      return code;
    }
  }
  return wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS) ? 1 : 0;
}

TEST(SharedBuffers, AnyMixtureOfThemIsRight) {
  const Meetings meetings;
  const std::uint64_t seed = test::test_seed();
  for (const Rank size : {2, 3, 4}) {
    RankProcesses ranks(size, [&](int rank) {
      return run_samples(meetings.place(size), rank, size, 240 / size, seed);
    });
    ranks.expect_all_good();
    if (HasFailure()) return;
  }
}

/// With too few descriptors a rank has no memory of its peers', or no connection at all: then its
/// call says so.
TEST(SharedBuffers, FewDescriptorsAreNoHarm) {
  const Meetings meetings;
  const std::uint64_t seed = test::test_seed();
  int right = 0, refused = 0;
  for (int files = 12; files <= 40; files += 2) {
    RankProcesses ranks(3, [&](int rank) {
      rlimit usual{};
      if (getrlimit(RLIMIT_NOFILE, &usual) != 0) return 1;
      const rlimit few{static_cast<rlim_t>(files), usual.rlim_max};
      if (rank != 0 && setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
      const int code = run_samples(meetings.place(files), rank, 3, 8, seed);
      // A leak sanitizer opens files when the process ends.
      return setrlimit(RLIMIT_NOFILE, &usual) == 0 ? code : 1;
    });
    for (int rank = 0; rank < 3; ++rank) {
      const int status = ranks.wait_for(rank);
      ASSERT_TRUE(WIFEXITED(status)) << "with " << files << " files: signal " << WTERMSIG(status);
      ASSERT_LE(WEXITSTATUS(status), 2) << "with " << files << " files";
      ++(status == 0 ? right : refused);
    }
  }
  EXPECT_GT(right, 5) << refused << " were refused";
}

}  // namespace
}  // namespace coll::testing
