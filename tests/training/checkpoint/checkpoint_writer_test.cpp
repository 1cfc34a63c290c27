// SPDX-License-Identifier: Apache-2.0
// Writing checkpoints: what is kept, what is refused, and how errors surface.
#include "checkpoint/checkpoint_writer.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "checkpoint/async_writer.hpp"
#include "checkpoint/shard_file.hpp"
#include "checkpoint_samples.hpp"
#include "temporary_folder.hpp"

namespace training::test {
namespace checkpoint_writer_test {

namespace fs = std::filesystem;
using Steps = std::vector<std::uint64_t>;

class CheckpointWriting : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  coll::test::TemporaryFolder folder_;
  fs::path place_ = folder_.path();
  Sample sample_{.folder = folder_.path(), .parameters = {{"w", 4, 25}, {"b", 1, 7}}};
};

TEST_F(CheckpointWriting, KeepsTheNewest) {
  sample_.keep = 3;
  for (const std::uint64_t step : {5U, 10U, 15U, 20U, 1'000'000U}) sample_.write(step);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-000015", "step-000020", "step-1000000"}));
  EXPECT_EQ(checkpoint_steps(place_), (Steps{1'000'000, 20, 15}));
}

TEST_F(CheckpointWriting, RemovesNoneBeforeTheNewOneIsComplete) {
  sample_.keep = 1;
  sample_.write(1);
  CheckpointWriter writer = sample_.writer();
  writer.prepare(2);
  EXPECT_EQ(checkpoint_steps(place_), Steps{1});
  writer.write_shard(2, snapshot_of(2, equal_pieces(sample_.parameters, 0, 2)));
  const std::string text = failure_of([&] { writer.commit(2, sample_.parameters, "{}"); });
  EXPECT_NE(text.find(shard_name(1) + " is missing"), std::string::npos) << text;
  EXPECT_EQ(checkpoint_steps(place_), Steps{1});
  sample_.write(2);
  EXPECT_EQ(checkpoint_steps(place_), Steps{2});
}

TEST_F(CheckpointWriting, RefusedOnesDoNotCountAndGo) {
  for (const std::uint64_t step : {10U, 20U}) sample_.write(step);
  fs::remove(place_ / "step-000020" / shard_name(0));
  sample_.refused = open_latest(place_).refused;
  sample_.write(15);
  EXPECT_EQ(checkpoint_steps(place_), (Steps{15, 10}));
}

TEST_F(CheckpointWriting, TheSameStepIsReplaced) {
  sample_.write(10);
  fs::resize_file(place_ / "step-000010" / shard_name(0), 100);
  sample_.refused = {10};
  sample_.write(10);
  LatestCheckpoint latest = open_latest(place_);
  EXPECT_TRUE(latest.refused.empty());
  sample_.expect_right(*latest.reader);
  EXPECT_EQ(names(), std::vector<std::string>{"step-000010"});
}

TEST_F(CheckpointWriting, WhatAKilledRunLeftIsTidied) {
  sample_.write(10);
  sample_.write(20);
  fs::create_directories(place_ / "step-000030.tmp" / "x");
  fs::rename(place_ / "step-000010", place_ / "step-000010.old");  // Killed while replacing it.
  fs::create_directory(place_ / "step-000020.old");                // Killed after replacing it.
  for (const char* other : {"notes.tmp", "step-7.tmp", "step-000001x.tmp"})
    fs::create_directory(place_ / other);
  EXPECT_EQ(checkpoint_steps(place_), Steps{20});
  tidy_checkpoints(place_);
  EXPECT_EQ(names(), (std::vector<std::string>{"notes.tmp", "step-000001x.tmp", "step-000010",
                                               "step-000020", "step-7.tmp"}));
  tidy_checkpoints(place_ / "absent");
}

TEST_F(CheckpointWriting, AModelWithoutParametersIsWrittenToo) {
  sample_.parameters.clear();
  sample_.write(0);
  EXPECT_EQ(open_latest(place_).reader->manifest().step, 0U);
}

TEST_F(CheckpointWriting, APartOfTheWeightsIsNoCheckpoint) {
  sample_.ranks = 1;
  CheckpointWriter writer = sample_.writer();
  const auto commit = [&](const std::vector<Piece>& pieces) {
    writer.prepare(3);
    writer.write_shard(3, snapshot_of(3, pieces));
    const std::string text = failure_of([&] { writer.commit(3, sample_.parameters, "{}"); });
    EXPECT_EQ(checkpoint_steps(place_), Steps{});
    return text;
  };
  std::string text = commit({{State::weights, "w", 0, 100}, {State::weights, "b", 0, 6}});
  EXPECT_NE(text.find("element 6 of the weights of b"), std::string::npos) << text;
  text = commit({{State::weights, "w", 0, 100},
                 {State::weights, "b", 0, 7},
                 {State::first_moment, "w", 1, 99}});
  EXPECT_NE(text.find("element 0 of the first moment of w"), std::string::npos) << text;
  text = commit({{State::weights, "w", 0, 101}, {State::weights, "b", 0, 7}});
  EXPECT_NE(text.find("which the model lacks"), std::string::npos) << text;
  text = commit({{State::weights, "z", 0, 1}});
  EXPECT_NE(text.find("which the model lacks"), std::string::npos) << text;
}

TEST_F(CheckpointWriting, TheTrainersStateMustBeJson) {
  sample_.ranks = 1;
  CheckpointWriter writer = sample_.writer();
  writer.prepare(1);
  writer.write_shard(1, snapshot_of(1, equal_pieces(sample_.parameters, 0, 1)));
  failure_of([&] { writer.commit(1, sample_.parameters, "{step"); });
  writer.commit(1, sample_.parameters, R"({"loss_scale":65536.0,"seed":18446744073709551615})");
  EXPECT_EQ(open_latest(place_).reader->manifest().trainer,
            R"({"loss_scale":65536.0,"seed":18446744073709551615})");
}

TEST_F(CheckpointWriting, InTheBackground) {
  sample_.ranks = 1;
  CheckpointWriter writer = sample_.writer();
  AsyncWriter background(writer);
  EXPECT_TRUE(background.done());
  for (const std::uint64_t step : {1U, 2U, 3U}) {
    const Snapshot snapshot = snapshot_of(step, equal_pieces(sample_.parameters, 0, 1));
    writer.prepare(step);
    background.start(step, snapshot);
    failure_of([&] { background.start(step, snapshot); });
    if (step == 2) {
      while (!background.done()) sched_yield();
    } else {
      background.wait();
    }
    EXPECT_TRUE(background.done());
    writer.commit(step, sample_.parameters, R"({"step": )" + std::to_string(step) + "}");
    LatestCheckpoint latest = open_latest(place_);
    sample_.expect_right(*latest.reader);
  }
}

TEST_F(CheckpointWriting, AnErrorInTheBackgroundComesWithTheNextPoll) {
  const CheckpointWriter writer = sample_.writer();
  AsyncWriter background(writer);
  const Snapshot snapshot = snapshot_of(1, equal_pieces(sample_.parameters, 0, 2));
  background.start(1, snapshot);  // Nobody prepared the folder.
  const std::string text = failure_of([&] {
    while (!background.done()) sched_yield();
  });
  EXPECT_NE(text.find("step-000001.tmp/" + shard_name(0)), std::string::npos) << text;
  EXPECT_NE(text.find("errno 2"), std::string::npos) << text;
  EXPECT_TRUE(background.done()) << "it is said once";
}

/// Writes a checkpoint of 4 MB after one of 1 kB, in a process of its own; prints nothing. Returns
/// whether the second fails with this errno, and the first is still there.
bool full_disk_is_survived(const std::function<void(const std::string&)>& limit, int error,
                           const std::string& folder) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      limit(folder);
      Sample small{.folder = folder, .parameters = {{"w", 1, 80}}, .ranks = 1};
      small.write(1);
      Sample large{.folder = folder, .parameters = {{"w", 1, 350'000}}, .ranks = 1};
      std::string text;
      try {
        large.write(2);
      } catch (const Failure& failure) {
        text = failure.what();
      }
      const bool said = text.find("errno " + std::to_string(error)) != std::string::npos &&
                        text.find(shard_name(0)) != std::string::npos;
      LatestCheckpoint latest = open_latest(folder);
      _exit(said && latest.reader && latest.reader->manifest().step == 1 ? 0 : 1);
    } catch (const std::exception& unexpected) {
      std::cerr << unexpected.what() << "\n";
      _exit(unexpected.what() == std::string("cannot mount") ? 77 : 2);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) throw std::runtime_error("cannot mount");
  return status == 0;
}

TEST_F(CheckpointWriting, AFileThatMayNotGrowIsAFailure) {
  const auto limit = [](const std::string&) {
    const rlimit most = {1'000'000, 1'000'000};
    setrlimit(RLIMIT_FSIZE, &most);
    signal(SIGXFSZ, SIG_IGN);
  };
  EXPECT_TRUE(full_disk_is_survived(limit, EFBIG, folder_.path()));
}

TEST_F(CheckpointWriting, AFullDiskIsAFailure) {
  const auto limit = [](const std::string& folder) {
    const bool alone = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!alone || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=1m") != 0)
      throw std::runtime_error("cannot mount");
  };
  try {
    EXPECT_TRUE(full_disk_is_survived(limit, ENOSPC, folder_.path()));
  } catch (const std::runtime_error&) {
    GTEST_SKIP() << "no file systems can be mounted here";
  }
}

/// A file of 5 GiB with holes: what counts in 32 bits reads the wrong place.
TEST_F(CheckpointWriting, FilesOfMoreThanFourGibibytes) {
  const std::size_t size = std::size_t{5} << 28U;
  sample_.ranks = 1;
  sample_.parameters = {{"w", 5, size / 5}, {"end", 1, 3}};
  CheckpointWriter writer = sample_.writer();
  writer.prepare(1);
  const std::vector<float> zeros(kBlockElements);
  const std::vector<float> end = {1.5F, 2.5F, 3.5F};
  ShardHead head{.step = 1,
                 .pieces = {{State::weights, "w", 0, size}, {State::weights, "end", 0, 3}}};
  head.blocks.assign(size / kBlockElements, sha256(std::as_bytes(std::span(zeros))));
  head.blocks.push_back(sha256(std::as_bytes(std::span(end))));
  const auto bytes = encode(head);
  StoredFile file = StoredFile::create(place_ / "step-000001.tmp" / shard_name(0));
  file.write(0, bytes);
  file.write(bytes.size() + size * sizeof(float), std::as_bytes(std::span(end)));
  writer.commit(1, sample_.parameters, "{}");

  CheckpointReader reader(place_ / "step-000001");
  std::vector<float> read(3, -1);
  reader.read({State::weights, "end", 0, 3}, read);
  EXPECT_EQ(read, end);
  reader.read({State::weights, "w", size - 3, 3}, read);
  EXPECT_EQ(read, std::vector<float>(3, 0));
}

TEST_F(CheckpointWriting, AtLeastOneIsKept) {
  sample_.keep = 0;
  failure_of([&] { static_cast<void>(sample_.writer()); });
}

}  // namespace checkpoint_writer_test
}  // namespace training::test
