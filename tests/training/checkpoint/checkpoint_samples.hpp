// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose every element says where it belongs: its value is a hash of its address.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "../failure_of.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/checkpoint_reader.hpp"
#include "checkpoint/checkpoint_writer.hpp"

namespace training::test {

inline constexpr State kAllStates[] = {State::weights, State::first_moment, State::second_moment};

/// Values of one parameter's state at a step.
class Values {
 public:
  Values(std::uint64_t step, State state, std::string_view parameter)
      : seed_(std::hash<std::string_view>()(parameter) + 31 * step +
              7 * static_cast<std::uint64_t>(state)) {}
  float operator()(std::size_t index) const {
    return static_cast<float>(((seed_ + index) * 0x9e3779b97f4a7c15U) >> 40U);
  }

 private:
  std::uint64_t seed_;
};

inline Snapshot snapshot_of(std::uint64_t step, const std::vector<Piece>& pieces) {
  Snapshot snapshot(pieces);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Values values(step, pieces[i].state, pieces[i].parameter);
    for (std::size_t j = 0; j < pieces[i].count; ++j)
      snapshot.of(i)[j] = values(pieces[i].first + j);
  }
  return snapshot;
}

/// The parameters in equal parts, one for each rank; all states.
inline std::vector<Piece> equal_pieces(const std::vector<WholeParameter>& parameters,
                                       std::size_t rank, std::size_t ranks) {
  std::vector<Piece> pieces;
  for (const State state : kAllStates) {
    for (const WholeParameter& parameter : parameters) {
      const std::size_t first = parameter.size() * rank / ranks;
      pieces.push_back(
          {state, parameter.name, first, parameter.size() * (rank + 1) / ranks - first});
    }
  }
  return pieces;
}

struct Sample {
  std::filesystem::path folder;
  std::vector<WholeParameter> parameters;
  std::size_t ranks = 2, keep = 2;
  std::vector<std::uint64_t> refused = {};

  [[nodiscard]] CheckpointWriter writer(std::size_t rank = 0) const {
    return CheckpointWriter({folder, rank, ranks, keep, refused});
  }
  /// Writes a checkpoint as all ranks one after another.
  void write(std::uint64_t step) const {
    CheckpointWriter first = writer();
    first.prepare(step);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      writer(rank).write_shard(step, snapshot_of(step, equal_pieces(parameters, rank, ranks)));
    first.commit(step, parameters, R"({"step": )" + std::to_string(step) + "}");
  }
  /// Every element is what it was.
  void expect_right(CheckpointReader& reader) const {
    const std::uint64_t step = reader.manifest().step;
    for (const Piece& piece : equal_pieces(parameters, 0, 1)) {
      std::vector<float> read(piece.count);
      reader.read(piece, read);
      const Values values(step, piece.state, piece.parameter);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < read.size(); ++i) wrong += read[i] == values(i) ? 0U : 1U;
      EXPECT_EQ(wrong, 0U) << name_of(piece.state) << " of " << piece.parameter;
    }
    EXPECT_EQ(reader.manifest().trainer, R"({"step":)" + std::to_string(step) + "}");
  }
};

}  // namespace training::test
