// SPDX-License-Identifier: Apache-2.0
// Groups ranks by the UUIDs of their GPUs.
#include "gpu/gpu_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "coll_perf/coll_perf_session.hpp"

namespace perf {
namespace {

/// What a rank tells of its GPU.
struct Told {
  GpuUuid uuid{};
  int number = 0, cuda_version = 0;
  char name[96] = "", bus[32] = "";
};
constexpr std::size_t kCopiesTold = 4;
/// What it tells of that GPU's copies; zeros if another rank measured them.
struct ToldCopies {
  GpuCopy copies[kCopiesTold];
};

/// Every rank's, by rank. In the host's memory, so it does not touch what is measured.
template <class T>
std::vector<T> gather(const Session& session, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(session.size()));
  session.require(
      coll_all_gather(&mine, all.data(), sizeof mine, COLL_UINT8, session.comm(), nullptr),
      "telling which GPU each rank uses");
  return all;
}

std::string uuid_text(const GpuUuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

}  // namespace

std::vector<double> GpuMap::moved_per_s() const {
  std::vector<double> all;
  for (const SharedGpu& gpu : gpus) all.push_back(gpu.limit.moved_per_s());
  return all;
}

GpuMap meet_on_gpus(const Session& session, const Gpu& gpu) {
  Told mine;
  mine.uuid = gpu.uuid();
  mine.number = gpu.number();
  mine.cuda_version = gpu.cuda_version();
  gpu.name().copy(mine.name, sizeof mine.name - 1);
  gpu.bus().copy(mine.bus, sizeof mine.bus - 1);
  GpuMap map;
  for (const Told& told : gather(session, mine)) {
    const std::string uuid = uuid_text(told.uuid);
    auto found = std::ranges::find(map.gpus, uuid, &SharedGpu::uuid);
    if (found == map.gpus.end())
      found = map.gpus.insert(found, {told.name, told.bus, uuid, told.cuda_version, {}, {}});
    found->ranks.push_back(static_cast<int>(map.gpu_of_rank.size()));
    map.gpu_of_rank.push_back(static_cast<int>(found - map.gpus.begin()));
    map.number_of_rank.push_back(told.number);
  }
  const int own = map.gpu_of_rank[static_cast<std::size_t>(session.rank())];
  ToldCopies copies{};
  if (map.gpus[static_cast<std::size_t>(own)].ranks.front() == session.rank()) {
    const GpuCopyLimit limit = measure_copy_limit(gpu);
    for (std::size_t i = 0; i < std::min(limit.copies.size(), kCopiesTold); ++i)
      copies.copies[i] = limit.copies[i];
  }
  const std::vector<ToldCopies> told = gather(session, copies);
  for (SharedGpu& each : map.gpus)
    for (const GpuCopy& copy : told[static_cast<std::size_t>(each.ranks.front())].copies)
      if (copy.bytes > 0) each.limit.copies.push_back(copy);
  return map;
}

}  // namespace perf
