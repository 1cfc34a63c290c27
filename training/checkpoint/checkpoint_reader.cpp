// SPDX-License-Identifier: Apache-2.0
// Checks and reads the files of a checkpoint.
#include "checkpoint_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "checkpoint_folder.hpp"

namespace training {

CheckpointReader::CheckpointReader(std::filesystem::path place)
    : place_(std::move(place)),
      manifest_(decode_manifest(read_text(place_ / kManifestName), place_ / kManifestName)) {
  for (std::size_t rank = 0; rank < manifest_.shards.size(); ++rank) {
    const auto path = place_ / shard_name(rank);
    const ShardFile& shard = shards_.emplace_back(path);
    const ShardEntry& entry = manifest_.shards[rank];
    if (shard.bytes() != entry.bytes) {
      throw Damaged(fmt::format("{} has {} bytes, and the manifest says {}", path.string(),
                                shard.bytes(), entry.bytes));
    }
    if (to_hex(shard.digest()) != entry.head) {
      throw Damaged(fmt::format("the head of {} is damaged: its SHA-256 is not the manifest's",
                                path.string()));
    }
    const ShardHead& head = shard.head();
    if (head.rank != rank || head.ranks != manifest_.shards.size() || head.step != manifest_.step) {
      throw Damaged(fmt::format("{} is rank {}'s of {} in step {}: it is of another checkpoint",
                                path.string(), head.rank, head.ranks, head.step));
    }
    std::size_t position = 0;
    for (const Piece& piece : head.pieces) {
      index_.add(piece, rank, position);
      position += piece.count;
    }
  }
  index_.finish();
  check_complete();
}

void CheckpointReader::check_complete() const {
  std::unordered_map<std::string, std::size_t> sizes;
  for (const WholeParameter& parameter : manifest_.parameters)
    sizes[parameter.name] = parameter.size();
  for (const ShardFile& shard : shards_) {
    for (const Piece& piece : shard.head().pieces) {
      const auto size = sizes.find(piece.parameter);
      if (size != sizes.end() && piece.first + piece.count <= size->second) continue;
      throw Failure(fmt::format("{}: rank {} wrote elements {} to {} of {}, which the model lacks",
                                place_.string(), shard.head().rank, piece.first,
                                piece.first + piece.count, piece.parameter));
    }
  }
  for (const WholeParameter& parameter : manifest_.parameters) {
    for (const State state : {State::weights, State::first_moment, State::second_moment}) {
      if (state != State::weights && !has(state, parameter.name)) continue;
      const auto missing = index_.first_missing(state, parameter.name, parameter.size());
      if (!missing) continue;
      throw Failure(fmt::format("{} is not complete: no rank wrote element {} of the {} of {}",
                                place_.string(), *missing, name_of(state), parameter.name));
    }
  }
}

void CheckpointReader::verify(std::size_t part, std::size_t parts) {
  std::size_t number = 0;
  for (ShardFile& shard : shards_) {
    for (std::size_t block = 0; block < shard.head().blocks.size(); ++block) {
      if (number++ % parts == part) static_cast<void>(shard.block(block));
    }
  }
}

void CheckpointReader::read(const Piece& piece, std::span<float> to) {
  if (to.size() != piece.count) {
    throw Failure(fmt::format("{} elements of {} do not fit a place for {}", piece.count,
                              piece.parameter, to.size()));
  }
  const auto& extents = index_.of(piece.state, piece.parameter);
  auto extent = std::ranges::upper_bound(extents, piece.first, {}, &Extent::first);
  if (extent != extents.begin()) --extent;
  for (std::size_t at = piece.first; at < piece.first + piece.count;) {
    if (extent != extents.end() && extent->end() <= at) ++extent;
    if (extent == extents.end() || extent->first > at) {
      throw Failure(fmt::format("{} does not have element {} of the {} of {}", place_.string(), at,
                                name_of(piece.state), piece.parameter));
    }
    const std::size_t position = extent->position + (at - extent->first);
    const std::size_t in_block = position % kBlockElements;
    const auto block = shards_[extent->shard].block(position / kBlockElements);
    const std::size_t count =
        std::min({extent->end() - at, block.size() - in_block, piece.first + piece.count - at});
    std::ranges::copy(block.subspan(in_block, count), to.subspan(at - piece.first).begin());
    at += count;
  }
}

LatestCheckpoint open_latest(const std::filesystem::path& folder, const Together& together) {
  LatestCheckpoint latest;
  for (const std::uint64_t step : checkpoint_steps(folder)) {
    const auto place = folder / checkpoint_name(step);
    std::string why;
    try {
      latest.reader.emplace(place);
      latest.reader->verify(together.rank, together.ranks);
    } catch (const Damaged& damage) {
      why = damage.what();
    }
    why = together.any(why);
    if (why.empty()) {
      if (!latest.refused.empty()) latest.text += fmt::format("{} is used.", place.string());
      return latest;
    }
    latest.refused.push_back(step);
    latest.text += fmt::format("{} is refused: {}. ", place.string(), why);
  }
  latest.reader.reset();
  if (!latest.refused.empty()) {
    throw Failure(latest.text + "No other checkpoint is there: move " + folder.string() +
                      " away to begin anew.",
                  Failure::kBadUsage);
  }
  return latest;
}

}  // namespace training
