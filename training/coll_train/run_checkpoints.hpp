// SPDX-License-Identifier: Apache-2.0
// A run's checkpoints: written by all ranks in the background, read by any number of ranks.
#pragma once
#include <optional>
#include <string>

#include "../checkpoint/async_writer.hpp"
#include "../checkpoint/checkpoint_reader.hpp"
#include "../trainer/trainer.hpp"

namespace training {

class RunCheckpoints {
 public:
  /// `whole`: the parameters and buffers of the whole model. `settings`: what a run must share with
  /// the one that wrote the checkpoint it goes on from: JSON.
  RunCheckpoints(std::string folder, std::size_t keep, Mesh& mesh,
                 std::vector<WholeParameter> whole, std::string settings);

  /// Goes on from the newest checkpoint, if there is one. All ranks call it. Returns a sentence for
  /// a person; "" if there is none.
  std::string resume(Trainer& trainer);
  /// Whether a newer checkpoint was damaged.
  [[nodiscard]] bool went_back() const { return !options_.refused.empty(); }
  /// Begins to write what the trainer is now, once the last one is written: a note says so, or "".
  /// All ranks call it.
  std::string save(Trainer& trainer);
  /// Whether this rank has written its part of one that is not a checkpoint yet.
  [[nodiscard]] bool written();
  /// All ranks have: makes it a checkpoint. Returns a note.
  std::string commit();
  /// Waits for one that is being written, and commits it. All ranks call it.
  std::string finish();
  [[nodiscard]] bool writing() const { return snapshot_.has_value(); }

 private:
  CheckpointOptions options_;
  Mesh& mesh_;
  std::vector<WholeParameter> whole_;
  std::string settings_, trainer_;
  std::optional<CheckpointWriter> writer_;
  std::optional<Snapshot> snapshot_;
  std::uint64_t step_ = 0;
  std::optional<AsyncWriter> async_;  ///< last: it waits for the snapshot
};

/// Fills a part's values from where each run of its elements lies in the whole parameter.
template <class Read>
void read_part(const Trainer::Part& part, Read read) {
  for (std::size_t i = 0; i < part.values.size();) {
    const std::size_t first = part.parameter.whole_index(part.first + i);
    std::size_t count = 1;
    while (i + count < part.values.size() &&
           part.parameter.whole_index(part.first + i + count) == first + count)
      ++count;
    read(first, part.values.subspan(i, count));
    i += count;
  }
}

}  // namespace training
