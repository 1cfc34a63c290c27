// SPDX-License-Identifier: Apache-2.0
// Any damage to a checkpoint is found and named, and the one before is used.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "checkpoint/checkpoint_table.hpp"
#include "checkpoint_samples.hpp"
#include "temporary_folder.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace checkpoint_damage_test {

namespace fs = std::filesystem;

void flip(const fs::path& path, std::uint64_t byte, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(byte));
  const auto changed = static_cast<char>(file.get() ^ (1 << bit));
  file.seekp(static_cast<std::streamoff>(byte));
  file.put(changed);
  ASSERT_TRUE(file.good());
}

class CheckpointDamage : public ::testing::Test {
 protected:
  CheckpointDamage() {
    sample_.write(10);
    sample_.write(20);
  }
  /// Step 20 is refused for a reason that has these words, step 10 is used, and both are said.
  void expect_falls_back(const std::vector<std::string>& words) {
    LatestCheckpoint latest = open_latest(sample_.folder);
    ASSERT_TRUE(latest.reader);
    EXPECT_EQ(latest.reader->manifest().step, 10U);
    EXPECT_EQ(latest.refused, std::vector<std::uint64_t>{20});
    for (const std::string& word : words)
      EXPECT_NE(latest.text.find(word), std::string::npos) << word << " in: " << latest.text;
    EXPECT_NE(latest.text.find("step-000020 is refused"), std::string::npos) << latest.text;
    EXPECT_NE(latest.text.find("step-000010 is used"), std::string::npos) << latest.text;
  }

  coll::test::TemporaryFolder folder_;
  /// Three blocks and a bit for each rank.
  Sample sample_{.folder = folder_.path(), .parameters = {{"w", 5, 100'000}, {"b", 1, 37'001}}};
  fs::path newest_ = fs::path(folder_.path()) / "step-000020";
};

TEST_F(CheckpointDamage, NoneIsNone) {
  LatestCheckpoint latest = open_latest(sample_.folder);
  ASSERT_TRUE(latest.reader);
  EXPECT_EQ(latest.reader->manifest().step, 20U);
  EXPECT_TRUE(latest.refused.empty());
  EXPECT_TRUE(latest.text.empty()) << latest.text;
  sample_.expect_right(*latest.reader);
}

TEST_F(CheckpointDamage, AnyFlippedBitIsFound) {
  std::mt19937_64 numbers(coll::test::test_seed());
  const auto below = [&](std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(numbers);
  };
  for (int round = 0; round < 60; ++round) {
    const std::string name = round % 3 == 0 ? kManifestName : shard_name(below(2));
    const fs::path path = newest_ / name;
    const std::uint64_t head = round % 3 == 1 ? 4096 : fs::file_size(path);
    const std::uint64_t byte = below(head);
    const int bit = static_cast<int>(below(8));
    SCOPED_TRACE(name + ", byte " + std::to_string(byte) + ", bit " + std::to_string(bit));
    ASSERT_NO_FATAL_FAILURE(flip(path, byte, bit));
    std::vector<std::string> words = {name};
    if (name != kManifestName && byte >= 4096)
      words.push_back("block " + std::to_string((byte - 4096) / kBlockBytes) + " of 4");
    expect_falls_back(words);
    ASSERT_NO_FATAL_FAILURE(flip(path, byte, bit));
  }
  EXPECT_EQ(open_latest(sample_.folder).reader->manifest().step, 20U) << "all is as it was";
}

TEST_F(CheckpointDamage, AMissingFileIsNamed) {
  for (const std::string& name : {std::string(kManifestName), shard_name(0), shard_name(1)}) {
    fs::rename(newest_ / name, newest_ / "away");
    expect_falls_back({name, "is missing"});
    fs::rename(newest_ / "away", newest_ / name);
  }
}

TEST_F(CheckpointDamage, AFileThatIsCutIsNamed) {
  const fs::path path = newest_ / shard_name(1);
  for (const std::uint64_t left :
       {fs::file_size(path) - 1, fs::file_size(path) - 4, std::uintmax_t{1'000'000},
        std::uintmax_t{70}, std::uintmax_t{3}, std::uintmax_t{0}}) {
    fs::resize_file(path, left);
    expect_falls_back({shard_name(1)});
  }
}

TEST_F(CheckpointDamage, AFileThatIsLongerIsNamed) {
  fs::resize_file(newest_ / shard_name(0), fs::file_size(newest_ / shard_name(0)) + 4);
  expect_falls_back({shard_name(0)});
}

TEST_F(CheckpointDamage, AFileOfAnotherCheckpointIsRefused) {
  fs::copy_file(fs::path(folder_.path()) / "step-000010" / shard_name(0), newest_ / shard_name(0),
                fs::copy_options::overwrite_existing);
  expect_falls_back({shard_name(0)});
}

TEST_F(CheckpointDamage, AnEmptyFolderIsRefused) {
  fs::remove_all(newest_);
  fs::create_directory(newest_);
  expect_falls_back({"manifest.json is missing"});
}

TEST_F(CheckpointDamage, IfAllAreDamagedNothingIsBegunAnew) {
  flip(newest_ / shard_name(0), 5000, 1);
  flip(fs::path(folder_.path()) / "step-000010" / kManifestName, 500, 1);
  const std::string text = failure_of([&] { open_latest(sample_.folder); });
  EXPECT_NE(text.find("step-000020 is refused: block 0 of 4"), std::string::npos) << text;
  EXPECT_NE(text.find("step-000010 is refused"), std::string::npos) << text;
  EXPECT_NE(text.find("No other checkpoint"), std::string::npos) << text;
}

TEST_F(CheckpointDamage, AFolderWithoutCheckpointsHasNone) {
  EXPECT_FALSE(open_latest(folder_.path() + "/absent").reader);
  fs::create_directory(folder_.path() + "/empty");
  EXPECT_FALSE(open_latest(folder_.path() + "/empty").reader);
}

TEST_F(CheckpointDamage, OnlyTheBlocksThatAreNeededAreRead) {
  CheckpointReader reader(newest_);
  flip(newest_ / shard_name(0), 4096 + 2 * kBlockBytes + 17, 3);
  std::vector<float> one(1);
  reader.read({State::weights, "w", 5, 1}, one);
  EXPECT_EQ(one[0], Values(20, State::weights, "w")(5));
  // In rank 0's file twice 250,000 elements of w and 18,500 of b come before the first moments of
  // b.
  const std::size_t in_block_2 = 2 * kBlockElements + 5 - 2 * 250'000 - 18'500;
  const std::string text = failure_of([&] {
    reader.read({State::first_moment, "b", in_block_2, 1}, one);
  });
  EXPECT_NE(text.find("block 2 of 4"), std::string::npos) << text;
  EXPECT_NE(text.find(shard_name(0)), std::string::npos) << text;
}

TEST_F(CheckpointDamage, WhatIsNotThereIsAFailure) {
  CheckpointReader reader(newest_);
  std::vector<float> two(2);
  for (const Piece& piece :
       {Piece{State::weights, "absent", 0, 2}, Piece{State::weights, "b", 37'000, 2},
        Piece{State::weights, "b", 1'000'000, 2}}) {
    const std::string text = failure_of([&] { reader.read(piece, two); });
    EXPECT_NE(text.find(piece.parameter), std::string::npos) << text;
  }
  failure_of([&] { reader.read({State::weights, "b", 0, 3}, two); });
  EXPECT_FALSE(reader.has(State::weights, "absent"));
  EXPECT_TRUE(reader.has(State::second_moment, "b"));
}

/// Each of two ranks checks half of the blocks: damage is found by one, and both use step 10.
TEST_F(CheckpointDamage, RanksCheckTogether) {
  flip(newest_ / shard_name(1), 4096 + kBlockBytes, 0);
  std::vector<bool> found;
  for (const std::size_t rank : {0U, 1U}) {
    bool first = true;
    const auto any = [&](const std::string& own) {
      if (first) found.push_back(!own.empty());
      return std::exchange(first, false) ? "one of the ranks found it in step 20" : "";
    };
    const LatestCheckpoint latest = open_latest(sample_.folder, {rank, 2, any});
    EXPECT_EQ(latest.reader->manifest().step, 10U);
    EXPECT_EQ(latest.refused, std::vector<std::uint64_t>{20});
  }
  EXPECT_EQ(std::ranges::count(found, true), 1) << "exactly one rank reads the damaged block";
}

TEST_F(CheckpointDamage, AnotherVersionIsNeverTakenForDamage) {
  // A newer program wrote it: going back to an older checkpoint would lose work silently.
  const fs::path path = newest_ / kManifestName;
  std::string text = read_text(path);
  const std::size_t rest = text.find('\n') + 1;
  std::string content = text.substr(rest);
  content.replace(content.find("\"version\": 1"), 12, "\"version\": 2");
  const std::string digest = to_hex(sha256(std::as_bytes(std::span(content))));
  std::ofstream(path) << "{\"sha256\": \"" << digest << "\",\n" << content;
  const std::string why = failure_of([&] { open_latest(sample_.folder); });
  EXPECT_NE(why.find("version 2"), std::string::npos) << why;
}

TEST_F(CheckpointDamage, ThePersonSeesATable) {
  sample_.write(1'234'567);
  flip(newest_ / shard_name(1), 4096 + kBlockBytes + 5, 6);
  const std::string text = describe_checkpoints(sample_.folder);
  std::istringstream lines(text);
  std::string head, first, second, third;
  std::getline(lines, head);
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_FALSE(std::getline(lines, third)) << text;  // Two are kept.
  EXPECT_NE(first.find("1234567      2       6.5 MB  valid"), std::string::npos) << text;
  EXPECT_NE(second.find("block 1 of 4"), std::string::npos) << text;
  EXPECT_NE(describe_checkpoints(folder_.path() + "/absent").find("no checkpoints"),
            std::string::npos);
}

}  // namespace checkpoint_damage_test
}  // namespace training::test
