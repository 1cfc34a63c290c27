// SPDX-License-Identifier: Apache-2.0
// One line for each checkpoint.
#include "checkpoint_table.hpp"

#include <fmt/format.h>

#include "checkpoint_folder.hpp"
#include "checkpoint_reader.hpp"

namespace training {
namespace {

std::string line_of(const std::filesystem::path& place, std::uint64_t step) {
  std::string ranks = "?", size = "?", verdict = "valid";
  try {
    CheckpointReader reader(place);
    std::uint64_t bytes = 0;
    for (const ShardEntry& shard : reader.manifest().shards) bytes += shard.bytes;
    ranks = std::to_string(reader.manifest().shards.size());
    size = fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
    reader.verify();
  } catch (const Failure& failure) {
    verdict = failure.what();
  }
  return fmt::format("{:>10} {:>6} {:>12}  {}\n", step, ranks, size, verdict);
}

}  // namespace

std::string describe_checkpoints(const std::filesystem::path& folder) {
  const auto steps = checkpoint_steps(folder);
  if (steps.empty()) return fmt::format("{} has no checkpoints.\n", folder.string());
  std::string text = fmt::format("{:>10} {:>6} {:>12}  {}\n", "step", "ranks", "size", "state");
  for (const std::uint64_t step : steps) text += line_of(folder / checkpoint_name(step), step);
  return text;
}

}  // namespace training
