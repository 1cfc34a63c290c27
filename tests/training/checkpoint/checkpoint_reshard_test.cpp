// SPDX-License-Identifier: Apache-2.0
// What any layout of ranks wrote, any other reads: random models, splits and stages.
#include <gtest/gtest.h>

#include <random>

#include "checkpoint/owned_pieces.hpp"
#include "checkpoint_samples.hpp"
#include "temporary_folder.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace checkpoint_reshard_test {

std::mt19937_64& random_numbers() {
  static std::mt19937_64 numbers(coll::test::test_seed());
  return numbers;
}
std::size_t pick(std::size_t least, std::size_t most) {
  return std::uniform_int_distribution<std::size_t>(least, most)(random_numbers());
}

enum class Split { none, rows, row_groups, columns };
struct Parameter {
  WholeParameter whole;
  Split split;
};
using Model = std::vector<std::vector<Parameter>>;  ///< [unit][parameter]

Model random_model(std::size_t largest) {
  Model model(pick(1, 5));
  for (std::size_t u = 0; u < model.size(); ++u) {
    for (std::size_t p = pick(1, 5); p > 0; --p) {
      const auto split = static_cast<Split>(pick(0, 3));
      const std::size_t rows = split == Split::none && pick(0, 1) == 0 ? 1 : 24 * pick(1, 2);
      const std::size_t columns =
          split == Split::none ? pick(1, largest) : 8 * pick(1, largest / 8);
      model[u].push_back(
          {{"unit" + std::to_string(u) + ".p" + std::to_string(p), rows, columns}, split});
    }
  }
  return model;
}

struct Mesh {
  std::size_t tensor = 1, pipeline = 1, data = 1;
  bool sharded = true;  ///< over data: ZeRO; if not, each rank of data owns all
  bool by_unit = true;
  [[nodiscard]] std::size_t ranks() const { return tensor * pipeline * data; }
};

Mesh random_mesh(const Model& model) {
  return {std::size_t{1} << pick(0, 2), pick(1, model.size()), pick(1, 4), pick(0, 2) != 0,
          pick(0, 1) == 0};
}

/// What one rank has: its units' parameters, where they lie, and its part.
class Rank {
 public:
  Rank(const Model& model, const Mesh& mesh, std::size_t rank)
      : shard_{mesh.sharded ? rank % mesh.data : 0, mesh.sharded ? mesh.data : 1} {
    const std::size_t tensor = rank / mesh.data % mesh.tensor;
    const std::size_t stage = rank / mesh.data / mesh.tensor;
    const std::size_t begin = model.size() * stage / mesh.pipeline;
    const std::size_t end = model.size() * (stage + 1) / mesh.pipeline;
    for (std::size_t u = begin; u < end; ++u) {
      parameters_.emplace_back();
      for (const Parameter& parameter : model[u])
        parameters_.back().push_back(part(parameter, tensor, mesh.tensor));
    }
    FlatLayout::Sizes sizes;
    for (const auto& unit : parameters_) {
      sizes.emplace_back();
      for (const ParameterInfo& info : unit) sizes.back().push_back(info.size());
    }
    const std::size_t alignment = kParameterAlignment * shard_.ranks;
    layout_ = std::make_unique<FlatLayout>(
        mesh.by_unit ? FlatLayout::by_unit(sizes, alignment)
                     : FlatLayout::by_bytes(sizes, FlatLayout::backward_order(sizes), {512, 4096},
                                            alignment));
  }

  /// All pieces of all states, and values by the places of elements in the layout.
  [[nodiscard]] Snapshot snapshot(std::uint64_t step) const {
    std::vector<Piece> pieces;
    for (const State state : kAllStates)
      for (const OwnedPiece& owned : owned_pieces(*layout_, shard_, parameters_, state))
        pieces.push_back(owned.piece);
    Snapshot snapshot(pieces);
    std::size_t i = 0;
    for (const State state : kAllStates) {
      const auto memory = expected(step, state);
      for (const OwnedPiece& owned : owned_pieces(*layout_, shard_, parameters_, state)) {
        const float* from = memory[owned.bucket].data() + owned.first;
        std::copy_n(from, owned.piece.count, snapshot.of(i++).begin());
      }
    }
    return snapshot;
  }

  void expect_reads(CheckpointReader& reader) const {
    for (const State state : kAllStates) {
      const auto right = expected(reader.manifest().step, state);
      std::vector<std::vector<float>> memory;
      for (const auto& bucket : right) memory.emplace_back(bucket.size(), -1.0F);
      for (const OwnedPiece& owned : owned_pieces(*layout_, shard_, parameters_, state))
        reader.read(owned.piece,
                    std::span(memory[owned.bucket]).subspan(owned.first, owned.piece.count));
      EXPECT_TRUE(memory == right) << name_of(state);
    }
  }

 private:
  static ParameterInfo part(const Parameter& parameter, std::size_t rank, std::size_t ranks) {
    const WholeParameter& all = parameter.whole;
    ParameterInfo info{.name = all.name, .rows = all.rows, .columns = all.columns};
    if (parameter.split == Split::none) return info;
    info.slice = {.rows = all.rows, .columns = all.columns};
    if (parameter.split == Split::columns) {
      info.columns /= ranks;
      info.slice.first_column = rank * info.columns;
    } else {
      info.slice.row_groups = parameter.split == Split::row_groups ? 3 : 1;
      info.rows /= ranks;
      info.slice.first_row = rank * info.rows / info.slice.row_groups;
    }
    return info;
  }

  /// The owned part of each bucket, element by element; padding is -1.
  [[nodiscard]] std::vector<std::vector<float>> expected(std::uint64_t step, State state) const {
    std::vector<std::vector<float>> memory;
    for (const Bucket& bucket : layout_->buckets()) {
      const Range range = shard_.of(bucket);
      memory.emplace_back(range.count, -1.0F);
      for_each_place(bucket, range, [&](const Place& place, const Range& here) {
        const ParameterInfo& info = parameters_[place.unit][place.parameter];
        const Values values(step, state, info.name);
        for (std::size_t at = here.begin; at < here.end(); ++at)
          memory.back()[at - range.begin] = values(info.whole_index(at - place.offset));
      });
    }
    return memory;
  }

  Shard shard_;
  ParameterTable parameters_;
  std::unique_ptr<FlatLayout> layout_;
};

std::vector<WholeParameter> whole_parameters(const Model& model) {
  std::vector<WholeParameter> parameters;
  for (const auto& unit : model)
    for (const Parameter& parameter : unit) parameters.push_back(parameter.whole);
  return parameters;
}

void expect_survives(const Model& model, const Mesh& from, const Mesh& to) {
  SCOPED_TRACE(::testing::Message() << from.tensor << "x" << from.pipeline << "x" << from.data
                                    << " -> " << to.tensor << "x" << to.pipeline << "x" << to.data);
  const coll::test::TemporaryFolder folder;
  const std::uint64_t step = pick(0, 2'000'000);
  CheckpointWriter first({folder.path(), 0, from.ranks()});
  first.prepare(step);
  for (std::size_t rank = 0; rank < from.ranks(); ++rank) {
    CheckpointWriter({folder.path(), rank, from.ranks()})
        .write_shard(step, Rank(model, from, rank).snapshot(step));
  }
  first.commit(step, whole_parameters(model), "{}");
  auto latest = open_latest(folder.path());
  ASSERT_TRUE(latest.reader);
  EXPECT_EQ(latest.reader->manifest().step, step);
  for (std::size_t rank = 0; rank < to.ranks(); ++rank)
    Rank(model, to, rank).expect_reads(*latest.reader);
}

TEST(CheckpointReshard, AnyMeshReadsWhatAnotherWrote) {
  for (int round = 0; round < 25; ++round) {
    const Model model = random_model(60);
    expect_survives(model, random_mesh(model), random_mesh(model));
  }
}

TEST(CheckpointReshard, DataParallelRanksChange) {
  const Model model = random_model(200);
  for (const std::size_t from : {1U, 3U, 8U})
    for (const std::size_t to : {1U, 2U, 3U, 8U})
      expect_survives(model, {.data = from}, {.data = to, .by_unit = false});
}

TEST(CheckpointReshard, PiecesCrossBlocks) {
  const Model model = {
      {{{"wide", 24, 30'000}, Split::columns}, {{"long", 1, 600'001}, Split::none}}};
  expect_survives(model, {.tensor = 2, .data = 3}, {.tensor = 4, .data = 1});
}

TEST(CheckpointReshard, ASplitMatrixHasAPieceForEachRow) {
  ParameterInfo info{.name = "w", .rows = 3, .columns = 4};
  info.slice = {.rows = 3, .columns = 8, .first_column = 4};
  const FlatLayout layout = FlatLayout::by_unit({{info.size()}}, 16);
  const auto pieces = owned_pieces(layout, {}, {{info}}, State::weights);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[1].first, 4U);
  EXPECT_EQ(pieces[1].piece.first, 12U);
  EXPECT_EQ(pieces[1].piece.count, 4U);
  info.slice = {.rows = 6, .columns = 4, .first_row = 3};
  EXPECT_EQ(owned_pieces(layout, {}, {{info}}, State::weights).size(), 1U) << "rows lie together";
}

TEST(CheckpointReshard, AVectorThatIsSplitIsAVectorAsAWhole) {
  ParameterInfo info{.name = "b", .rows = 6, .columns = 1};
  info.slice = {.rows = 12, .columns = 1};
  EXPECT_EQ(whole(info).rows, 1U);
  EXPECT_EQ(whole(info).columns, 12U);
}

TEST(CheckpointReshard, WhatIsWrittenTwiceIsReadOnce) {
  for (int round = 0; round < 20; ++round) {
    const coll::test::TemporaryFolder folder;
    const std::size_t size = pick(1, 3000), ranks = pick(1, 5);
    CheckpointWriter first({folder.path(), 0, ranks});
    first.prepare(1);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<Piece> pieces;
      for (int i = 0; i < 5; ++i) {
        const std::size_t begin = pick(0, size), end = pick(begin, size);
        pieces.push_back({State::weights, "w", begin, end - begin});
      }
      // Together they have everything, whatever the random ones leave.
      const std::size_t begin = size * rank / ranks;
      pieces.push_back({State::weights, "w", begin, size * (rank + 1) / ranks - begin});
      CheckpointWriter({folder.path(), rank, ranks}).write_shard(1, snapshot_of(1, pieces));
    }
    first.commit(1, {{"w", 1, size}}, "{}");
    auto latest = open_latest(folder.path());
    for (int i = 0; i < 20; ++i) {
      const std::size_t begin = pick(0, size), end = pick(begin, size);
      std::vector<float> read(end - begin);
      latest.reader->read({State::weights, "w", begin, end - begin}, read);
      for (std::size_t j = 0; j < read.size(); ++j)
        ASSERT_EQ(read[j], Values(1, State::weights, "w")(begin + j));
    }
  }
}

}  // namespace checkpoint_reshard_test
}  // namespace training::test
