// SPDX-License-Identifier: Apache-2.0
// Calls of ranks on a device, with what must come out.
#pragma once
#include "collectives/built.hpp"
#include "executor/executor_calls.hpp"
#include "stream_ranks.hpp"

namespace coll::testing {

inline constexpr std::size_t kArena = 1 << 16;

inline std::vector<Schedule> schedules_of(const char* algorithm, Collective collective,
                                          Rank ranks) {
  return build_all(*find_algorithm(algorithm), {collective, ranks, 0});
}

/// One rank's part in a call of int64 sums, in memory of its own.
struct RankCall {
  Buffers buffers;
  DeviceArena arena{kArena};
  Run run;

  RankCall(const CollectiveSpec& spec, std::size_t rank, std::uint64_t count, bool in_place,
           std::uint64_t number)
      : buffers(spec, rank, count, in_place, number) {
    arena.write(buffers.memory().data(), buffers.memory().size_bytes());
  }
  void bind(Program& program) {
    CallBinding call = buffers.call(7);
    move(call, buffers.memory().data(), arena.pointer());
    run.bind(program, call);
  }
  void expect_result(const CollectiveSpec& spec, std::size_t rank, std::uint64_t count,
                     std::uint64_t number) {
    arena.read(buffers.memory().data(), buffers.memory().size_bytes());
    compare(buffers.take(), spec, rank, count, number);
  }
};

}  // namespace coll::testing
