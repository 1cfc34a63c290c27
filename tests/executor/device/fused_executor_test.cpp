// SPDX-License-Identifier: Apache-2.0
// The fused kernel gives the bits that the CPU gives for the same schedules.
#include "collectives/built.hpp"
#include "device_calls.hpp"
#include "executor/executor_ranks.hpp"
#include "fused_ranks.hpp"
#include "test_seed.hpp"

namespace coll::testing {
namespace {

using Arenas = std::vector<std::unique_ptr<DeviceArena>>;

Arenas make_arenas() {
  Arenas arenas;
  for (std::size_t r = 0; r < kMostRanks; ++r)
    arenas.push_back(std::make_unique<DeviceArena>(1 << 18));
  return arenas;
}

/// One call of all ranks on the CPU and on the device; compares all bytes of all buffers.
void run_and_compare(const CollectiveSpec& spec, ExecutorRanks& on_cpu, FusedRanks& ranks,
                     FusedPrograms& programs, Arenas& arenas, std::uint64_t count, bool in_place,
                     std::mt19937_64& random) {
  const DeviceOperation operation = draw_operation(random);
  const auto size = static_cast<std::size_t>(spec.ranks);
  std::vector<CallBytes> calls;
  for (std::size_t r = 0; r < size; ++r)
    calls.emplace_back(spec, static_cast<Rank>(r), count, operation, in_place, random);

  std::vector<std::vector<std::byte>> results(size);
  for (std::size_t r = 0; r < size; ++r)
    arenas[r]->write(calls[r].bytes.data(), calls[r].bytes.size());
  std::vector<Run> runs(size);
  const auto run_rank = [&](std::size_t r) {
    runs[r].bind(programs.program(r), calls[r].at(arenas[r]->pointer()));
    ranks.progress(r).begin(runs[r]);
  };
  const auto finish_rank = [&](std::size_t r) {
    if (!ranks.poll_until_done(r, runs[r])) return;
    results[r].resize(calls[r].bytes.size());
    arenas[r]->read(results[r].data(), results[r].size());
  };
  if (random() % 4 == 0) {
    as_threads(size, [&](std::size_t r) {
      run_rank(r);
      finish_rank(r);
    });
  } else {
    for (std::size_t r = 0; r < size; ++r) run_rank(r);
    for (std::size_t r = 0; r < size; ++r) finish_rank(r);
  }
  if (::testing::Test::HasFailure()) return;

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

void expect_message_digests(FusedPrograms& programs) {
  programs.network().for_each_port([](LoopPort& port) {
    for (const Announced& message : port.sent) EXPECT_EQ(std::get<2>(message), 42U);
  });
  programs.network().expect_at_rest();
  programs.network().expect_slots_in_turn();
}

void run_every_algorithm(std::size_t most_ranks, const FusedShape& shape,
                         std::uint32_t least_slice) {
  const emulation_test::OnDevice device;
  std::mt19937_64 random(test::test_seed());
  Arenas arenas = make_arenas();
  FusedRanks ranks(most_ranks, shape);
  for (const Algorithm& algorithm : algorithms()) {
    for (int c = 0; c < kCollectives; ++c) {
      for (std::size_t size = 1; size <= most_ranks; ++size) {
        const CollectiveSpec spec{static_cast<Collective>(c), static_cast<Rank>(size),
                                  static_cast<Rank>(random() % size)};
        if (spec.collective == Collective::send || spec.collective == Collective::recv) continue;
        const Layout layout = random() % 2 == 0 ? Layout::flat(spec.ranks) : two_hosts(spec.ranks);
        if (!algorithm.supports(spec, layout)) continue;
#if defined(TRY_LESS)
        if (random() % 6 != 0) continue;
#endif
        const std::vector<Schedule> schedules = build_all(algorithm, spec, layout);
        FusedPrograms::Settings settings;
        // More lanes than blocks have no program.
        const std::size_t most_lanes = processors() / most_ranks;
        settings.copies = 1 + static_cast<std::uint32_t>(random() % 3);
        while (settings.copies * schedules[0].lanes.size() > most_lanes) --settings.copies;
        settings.credits = least_credits(schedules) + static_cast<std::uint32_t>(random() % 3);
        settings.slice_bytes =
            std::max(least_slice << (random() % 4), longest_message(schedules) * 16);
        settings.lends = random() % 4 != 0;
        ExecutorRanks::Settings of_cpu;
        of_cpu.copies = settings.copies;
        of_cpu.slice_bytes = settings.slice_bytes;
        of_cpu.loans = Loans::none;
        ExecutorRanks on_cpu(schedules, of_cpu);
        FusedPrograms programs(ranks, {schedules}, settings);
        if (::testing::Test::HasFailure()) return;
        const std::uint64_t counts[] = {random() % 2, 2 + random() % 30, 100 + random() % 700};
        for (const std::uint64_t count : counts) {
          const bool in_place = random() % 2 == 0;
          SCOPED_TRACE(describe(algorithm, spec) + ", count " + std::to_string(count) +
                       (in_place ? ", in place" : ", apart") + (settings.lends ? ", lent" : "") +
                       ", copies " + std::to_string(settings.copies) + ", credits " +
                       std::to_string(settings.credits) + ", slices of " +
                       std::to_string(settings.slice_bytes));
          run_and_compare(spec, on_cpu, ranks, programs, arenas, count, in_place, random);
          if (::testing::Test::HasFailure()) return;
          expect_message_digests(programs);
        }
        ASSERT_EQ(programs.pool().counts().of(ScratchUse::program), 0U)
            << "the host's memory is no scratch of a device";
      }
    }
  }
}

TEST(FusedExecutor, EveryAlgorithmByLines) {
  run_every_algorithm(8, shape_of_lines(), 64);
}

TEST(FusedExecutor, EveryAlgorithmBySlots) {
  run_every_algorithm(6, shape_of_slots(), 64);
}

TEST(FusedExecutor, EveryAlgorithmByShares) {
  run_every_algorithm(4, shape_of_shares(), 512);
}

}  // namespace
}  // namespace coll::testing
