// SPDX-License-Identifier: Apache-2.0
// Streams of a device give the bits that the CPU gives for the same schedules.
#include <iostream>

#include "collectives/built.hpp"
#include "device_calls.hpp"
#include "executor/executor_ranks.hpp"
#include "executor/unequal_calls.hpp"
#include "stream_ranks.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

/// One call of all ranks on the CPU and on streams; compares all bytes of all buffers.
void run_and_compare(const CollectiveSpec& spec, ExecutorRanks& on_cpu, StreamPrograms& programs,
                     std::vector<std::unique_ptr<DeviceArena>>& arenas, std::uint64_t count,
                     bool in_place, std::mt19937_64& random) {
  const DeviceOperation operation = draw_operation(random);
  const auto size = static_cast<std::size_t>(spec.ranks);
  std::vector<CallBytes> calls;
  for (std::size_t r = 0; r < size; ++r)
    calls.emplace_back(spec, static_cast<Rank>(r), count, operation, in_place, random);

  std::vector<std::vector<std::byte>> results(size);
  for (std::size_t r = 0; r < size; ++r)
    arenas[r]->write(calls[r].bytes.data(), calls[r].bytes.size());
  std::vector<Run> runs(size);
  const auto begin_rank = [&](std::size_t r) {
    runs[r].bind(programs.program(r), calls[r].at(arenas[r]->pointer()));
    stream_rank(r).progress.begin(runs[r]);
  };
  if (random() % 4 == 0) {
    as_threads(size, [&](std::size_t r) {
      begin_rank(r);
      poll_until_done(r, runs[r]);
    });
  } else {
    for (std::size_t r = 0; r < size; ++r) begin_rank(r);
    poll_until_all_done(size, [&](std::size_t r) -> coll::Run& { return runs[r]; });
  }
  if (::testing::Test::HasFailure()) return;
  for (std::size_t r = 0; r < size; ++r) {
    results[r].resize(calls[r].bytes.size());
    arenas[r]->read(results[r].data(), results[r].size());
  }

  for (std::size_t r = 0; r < size; ++r) on_cpu.start(r, calls[r].at(calls[r].bytes.data()));
  ASSERT_TRUE(on_cpu.drive(random, 20'000'000, [](std::size_t) {})) << "no end in sight";
  for (std::size_t r = 0; r < size; ++r) {
    const auto differ = std::ranges::mismatch(results[r], calls[r].bytes);
    ASSERT_TRUE(differ.in1 == results[r].end())
        << "rank " << r << ", byte " << differ.in1 - results[r].begin() << " of "
        << results[r].size() << " (output at " << calls[r].output << "), " << name_of(operation.op)
        << " of " << coll::name_of(operation.type);
  }
}

/// Of schedules whose lanes have queues.
StreamPrograms::Settings draw_settings(const std::vector<Schedule>& schedules,
                                       std::mt19937_64& random) {
  StreamPrograms::Settings settings;
  settings.copies = 1 + static_cast<std::uint32_t>(random() % 3);
  while (settings.copies * schedules[0].lanes.size() > most_lanes_of_rank()) --settings.copies;
  settings.credits = least_credits(schedules) + static_cast<std::uint32_t>(random() % 3);
  settings.slice_bytes = 64U << (random() % 4);
  return settings;
}

/// A real GPU has too few queues for its lanes.
void say_passed_over(const Algorithm& algorithm, const CollectiveSpec& spec) {
  std::cout << "passed over, for want of queues: " << describe(algorithm, spec) << '\n';
}

void run_every_algorithm(std::span<const Rank> sizes) {
  const emulation_test::OnDevice device;
  std::mt19937_64 random(test::test_seed());
  std::vector<std::unique_ptr<DeviceArena>> arenas;
  for (std::size_t r = 0; r < kMostRanks; ++r) {
    stream_rank(r);
    arenas.push_back(std::make_unique<DeviceArena>(1 << 18));
  }
  for (const Algorithm& algorithm : algorithms()) {
    for (int c = 0; c < kCollectives; ++c) {
      for (const Rank size : sizes) {
        const CollectiveSpec spec{static_cast<Collective>(c), size,
                                  static_cast<Rank>(random() % static_cast<unsigned>(size))};
        if (spec.collective == Collective::send || spec.collective == Collective::recv) continue;
        const Layout layout = random() % 2 == 0 ? Layout::flat(size) : two_hosts(size);
        if (!algorithm.supports(spec, layout)) continue;
#if defined(TRY_LESS)
        if (random() % 3 != 0) continue;
#endif
        const std::vector<Schedule> schedules = build_all(algorithm, spec, layout);
        if (schedules[0].lanes.size() > most_lanes_of_rank()) {
          say_passed_over(algorithm, spec);
          continue;
        }
        const StreamPrograms::Settings settings = draw_settings(schedules, random);
        ExecutorRanks::Settings of_cpu;
        of_cpu.copies = settings.copies;
        of_cpu.slice_bytes = settings.slice_bytes;
        of_cpu.loans = Loans::none;
        ExecutorRanks on_cpu(schedules, of_cpu);
        StreamPrograms programs({schedules}, settings);
        const std::uint64_t counts[] = {random() % 2, 2 + random() % 30, 100 + random() % 700};
        for (const std::uint64_t count : counts) {
          const bool in_place = random() % 2 == 0;
          SCOPED_TRACE(describe(algorithm, spec) + ", count " + std::to_string(count) +
                       (in_place ? ", in place" : ", apart") + ", copies " +
                       std::to_string(settings.copies) + ", credits " +
                       std::to_string(settings.credits) + ", slices of " +
                       std::to_string(settings.slice_bytes));
          run_and_compare(spec, on_cpu, programs, arenas, count, in_place, random);
          if (::testing::Test::HasFailure()) return;
          programs.network().for_each_port([](LoopPort& port) {
            for (const Announced& message : port.sent) EXPECT_EQ(std::get<2>(message), 42U);
          });
          programs.network().expect_at_rest();
          programs.network().expect_slots_in_turn();
        }
        ASSERT_EQ(programs.pool().counts().of(ScratchUse::program), 0U)
            << "the host's memory is no scratch of a device";
      }
    }
  }
}

TEST(StreamExecutor, EveryAlgorithmGivesTheBitsOfTheCpu) {
  run_every_algorithm(std::array<Rank, 5>{1, 2, 3, 4, 5});
}

TEST(StreamExecutor, EveryAlgorithmOfMoreRanks) {
  run_every_algorithm(std::array<Rank, 3>{6, 7, 8});
}

/// One call of blocks of any lengths: what comes out, and that the holes between blocks stay.
void run_unequal(const CollectiveSpec& spec, StreamPrograms& programs,
                 std::vector<std::unique_ptr<DeviceArena>>& arenas, bool in_place,
                 std::mt19937_64& random) {
  UnequalSample sample = draw_unequal(spec, in_place, random);
  std::vector<UnequalBuffers>& buffers = sample.buffers;
  std::vector<Run> runs(buffers.size());
  for (std::size_t r = 0; r < buffers.size(); ++r) {
    const std::span<std::int64_t> memory = buffers[r].memory();
    arenas[r]->write(memory.data(), memory.size_bytes());
    CallBinding call = buffers[r].call(sample.known);
    move(call, memory.data(), arenas[r]->pointer());
    runs[r].bind(programs.program(r), call);
    stream_rank(r).progress.begin(runs[r]);
  }
  if (!poll_until_all_done(buffers.size(), [&](std::size_t r) -> coll::Run& { return runs[r]; }))
    return;
  for (std::size_t r = 0; r < buffers.size(); ++r) {
    const std::span<std::int64_t> memory = buffers[r].memory();
    arenas[r]->read(memory.data(), memory.size_bytes());
    buffers[r].compare();
  }
}

TEST(StreamExecutor, BlocksOfAnyLengths) {
  const emulation_test::OnDevice device;
  std::mt19937_64 random(test::test_seed() + 1);
  std::vector<std::unique_ptr<DeviceArena>> arenas;
  for (std::size_t r = 0; r < kMostRanks; ++r)
    arenas.push_back(std::make_unique<DeviceArena>(1 << 18));
  for (const Algorithm& algorithm : algorithms()) {
    for (int c = 0; c < kCollectives; ++c) {
      for (const Rank size : {2, 3, 4, 7}) {
        const CollectiveSpec spec{static_cast<Collective>(c), size,
                                  static_cast<Rank>(random() % static_cast<unsigned>(size)), true};
        const BlockShape shape = block_shape(spec.collective, size, 0, 0);
        if (shape.input <= 1 && shape.output <= 1) continue;
        if (!algorithm.serves(spec, Layout::flat(size))) continue;
        const std::vector<Schedule> schedules = build_all(algorithm, spec);
        if (schedules[0].lanes.size() > most_lanes_of_rank()) {
          say_passed_over(algorithm, spec);
          continue;
        }
        const StreamPrograms::Settings settings = draw_settings(schedules, random);
        StreamPrograms programs({schedules}, settings);
        for (int call = 0; call < 4; ++call) {
          const bool in_place = call % 2 != 0;
          SCOPED_TRACE(describe(algorithm, spec) + (in_place ? ", in place" : ", apart"));
          run_unequal(spec, programs, arenas, in_place, random);
          if (::testing::Test::HasFailure()) return;
          programs.network().expect_at_rest();
          programs.network().expect_slots_in_turn();
        }
      }
    }
  }
}

}  // namespace
}  // namespace coll::testing
