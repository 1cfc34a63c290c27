// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint, whatever ranks and splits wrote it, and finds the newest that is undamaged.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "manifest.hpp"
#include "piece_index.hpp"
#include "shard_file.hpp"

namespace training {

class CheckpointReader {
 public:
  /// Reads the manifest and all heads. Throws Damaged if a file is not as it was written, and
  /// Failure if the checkpoint does not have all weights, or a state of only part of a parameter,
  /// or what the model does not have.
  explicit CheckpointReader(std::filesystem::path place);

  /// Reads and checks all data; of several parts (such as ranks), every `parts`-th block.
  void verify(std::size_t part = 0, std::size_t parts = 1);

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] bool has(State state, const std::string& parameter) const {
    return !index_.of(state, parameter).empty();
  }
  /// Reads the blocks that hold the piece, and checks them. Throws Failure if the checkpoint does
  /// not have it, Damaged if a block is damaged.
  void read(const Piece& piece, std::span<float> to);

 private:
  void check_complete() const;
  std::filesystem::path place_;
  Manifest manifest_;
  std::vector<ShardFile> shards_;
  PieceIndex index_;
};

/// Ranks that look for a checkpoint together: each checks its part of the data.
struct Together {
  std::size_t rank = 0, ranks = 1;
  /// The damage that any rank found; "" if none did. `own`: what this one found.
  std::function<std::string(const std::string& own)> any = [](const std::string& own) {
    return own;
  };
};

struct LatestCheckpoint {
  std::optional<CheckpointReader> reader;  ///< none: the folder has no checkpoint
  std::vector<std::uint64_t> refused;      ///< newer ones, which are damaged
  std::string text;                        ///< for a person: what is damaged, and what is used
};

/// The newest checkpoint without damage. Throws Failure if all are damaged.
LatestCheckpoint open_latest(const std::filesystem::path& folder, const Together& together = {});

}  // namespace training
