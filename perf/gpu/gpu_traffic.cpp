// SPDX-License-Identifier: Apache-2.0
// Counts what ranks read and write, from what each of them sends and receives.
#include "gpu/gpu_traffic.hpp"

#include <algorithm>

#include "coll_perf/oracle/coll_perf_oracle.hpp"

namespace perf {
namespace {

struct Traffic {
  std::uint64_t read = 0, written = 0;
};

/// Elements of the rank's own block that an in-place call leaves where they are.
Traffic stays(const GpuCall& call, int rank) {
  const bool root = rank == call.root;
  switch (equal_blocks(call.operation)) {
    case Operation::all_gather:
      return {0, 1};  // the others read it
    case Operation::broadcast:
      return {0, root ? 1U : 0U};
    case Operation::gather:
    case Operation::scatter:
      return {root ? 1U : 0U, root ? 1U : 0U};
    default:
      return {};
  }
}

/// In blocks.
Traffic of_rank(const GpuCall& call, int rank, int ranks) {
  Traffic all{elements(sent(call.operation, rank, ranks, call.root, 1)),
              elements(received(call.operation, rank, ranks, call.root, 1))};
  if (!call.in_place) return all;
  if (ranks == 1) return {};
  const Traffic kept = stays(call, rank);
  return {all.read - kept.read, all.written - kept.written};
}

}  // namespace

std::vector<std::uint64_t> gpu_traffic(const GpuCall& call, const std::vector<int>& gpu_of_rank) {
  const int ranks = static_cast<int>(gpu_of_rank.size());
  const int gpus = gpu_of_rank.empty() ? 0 : *std::ranges::max_element(gpu_of_rank) + 1;
  std::vector<std::uint64_t> bytes(static_cast<std::size_t>(gpus), 0);
  if (call.operation == Operation::barrier) return bytes;
  for (int rank = 0; rank < ranks; ++rank) {
    const Traffic traffic = of_rank(call, rank, ranks);
    bytes[static_cast<std::size_t>(gpu_of_rank[static_cast<std::size_t>(rank)])] +=
        (traffic.read + traffic.written) * call.block;
  }
  if (equal_blocks(call.operation) == Operation::sendrecv)
    for (std::uint64_t& each : bytes) each /= 2;
  return bytes;
}

GpuUse gpu_use(const GpuCall& call, const std::vector<int>& gpu_of_rank,
               const std::vector<double>& moved_per_s, double time_s) {
  const std::vector<std::uint64_t> bytes = gpu_traffic(call, gpu_of_rank);
  GpuUse use;
  double longest = 0;
  for (std::size_t gpu = 0; gpu < bytes.size(); ++gpu) {
    if (bytes[gpu] == 0 || moved_per_s[gpu] <= 0) continue;
    const double takes = static_cast<double>(bytes[gpu]) / moved_per_s[gpu];
    if (takes <= longest) continue;
    longest = takes;
    use.bytes = bytes[gpu];
  }
  if (time_s > 0) use.fraction = longest / time_s;
  return use;
}

}  // namespace perf
