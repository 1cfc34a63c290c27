// SPDX-License-Identifier: Apache-2.0
// The phases of writing a checkpoint.
#include "checkpoint_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint_folder.hpp"
#include "checkpoint_reader.hpp"
#include "shard_file.hpp"

namespace training {

CheckpointWriter::CheckpointWriter(CheckpointOptions options) : options_(std::move(options)) {
  if (options_.keep == 0) throw Failure("at least one checkpoint must be kept", Failure::kBadUsage);
}

void CheckpointWriter::prepare(std::uint64_t step) const {
  const auto place = unfinished_checkpoint(options_.folder, step);
  remove_tree(place);
  make_folder(place);
}

void CheckpointWriter::write_shard(std::uint64_t step, const Snapshot& snapshot) const {
  training::write_shard(
      unfinished_checkpoint(options_.folder, step) / shard_name(options_.rank),
      {.rank = options_.rank, .ranks = options_.ranks, .step = step, .pieces = snapshot.pieces()},
      snapshot.values());
}

void CheckpointWriter::commit(std::uint64_t step, const std::vector<WholeParameter>& parameters,
                              const std::string& trainer) {
  const auto place = unfinished_checkpoint(options_.folder, step);
  Manifest manifest{.step = step, .parameters = parameters, .trainer = trainer};
  for (std::size_t rank = 0; rank < options_.ranks; ++rank) {
    const ShardFile shard(place / shard_name(rank));
    manifest.shards.push_back({shard.bytes(), to_hex(shard.digest())});
  }
  const std::string text = encode(manifest);
  StoredFile file = StoredFile::create(place / kManifestName);
  file.write(0, std::as_bytes(std::span(text)));
  file.sync();
  const CheckpointReader complete(place);  // Throws if it is not.
  sync_folder(place);
  put_checkpoint(options_.folder, step);
  remove_older(step);
}

void CheckpointWriter::remove_older(std::uint64_t step) {
  std::erase(options_.refused, step);
  std::size_t kept = 0;
  for (const std::uint64_t other : checkpoint_steps(options_.folder)) {
    const bool refused = std::ranges::count(options_.refused, other) != 0;
    if (refused || (other <= step && ++kept > options_.keep))
      remove_checkpoint(options_.folder, other);
  }
  options_.refused.clear();
}

}  // namespace training
