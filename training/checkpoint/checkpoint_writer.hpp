// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint that a kill at any point cannot harm: all files go to step-000123.tmp/, are
// brought to the disk, and become a checkpoint by one rename.
//
//   rank 0:      prepare()       barrier
//   every rank:  write_shard()   barrier     (in the background: async_writer.hpp)
//   rank 0:      commit()
//
// The trainer does the barriers: nothing here communicates. All ranks see the same folder.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "manifest.hpp"
#include "piece.hpp"

namespace training {

struct CheckpointOptions {
  std::filesystem::path folder;
  std::size_t rank = 0, ranks = 1;
  std::size_t keep = 2;  ///< newest checkpoints that stay: at least 1
  /// Damaged ones, which open_latest() refused: they do not count, and go with the first commit.
  std::vector<std::uint64_t> refused = {};
};

class CheckpointWriter {
 public:
  explicit CheckpointWriter(CheckpointOptions options);

  /// Makes the folder to write to.
  void prepare(std::uint64_t step) const;
  /// Writes what this rank owns and waits until it is on the disk.
  void write_shard(std::uint64_t step, const Snapshot& snapshot) const;
  /// Checks that the files are a complete checkpoint, makes them one, and removes older ones.
  void commit(std::uint64_t step, const std::vector<WholeParameter>& parameters,
              const std::string& trainer);

 private:
  void remove_older(std::uint64_t step);
  CheckpointOptions options_;
};

}  // namespace training
