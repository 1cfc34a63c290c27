// SPDX-License-Identifier: Apache-2.0
// Processes that are killed while they write checkpoints: each begins where the last one's newest
// checkpoint ended, and finds it complete.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <random>

#include "checkpoint_samples.hpp"
#include "temporary_folder.hpp"
#include "test_seed.hpp"

namespace training::test {
namespace checkpoint_kill_test {

#ifdef TRY_LESS
constexpr int kRounds = 20;
#else
constexpr int kRounds = 80;
#endif

/// Writes checkpoint after checkpoint, and tells the step of each that is complete.
[[noreturn]] void write_until_killed(const Sample& sample, std::uint64_t step, int said) {
  try {
    for (;; ++step) {
      // Each a second time too, as after a restart from an older one: it replaces the first.
      for (int time = 0; time < 2; ++time) {
        sample.write(step);
        if (write(said, &step, sizeof step) != sizeof step) _exit(3);
      }
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    _exit(2);
  }
}

TEST(CheckpointKill, AtAnyMomentTheNewestCompleteOneIsThere) {
  std::mt19937_64 numbers(coll::test::test_seed());
  const coll::test::TemporaryFolder folder;
  const Sample sample{.folder = folder.path(), .parameters = {{"w", 70, 400}, {"b", 1, 13}}};
  std::uint64_t newest = 0;
  int in_the_middle = 0;
  // Slow machines need more: some checkpoints must be complete, and some kills must hit one half
  // done.
  for (int round = 0; round < kRounds || newest == 0 || in_the_middle == 0; ++round) {
    int said[2];
    ASSERT_EQ(pipe(said), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_until_killed(sample, newest + 1, said[1]);
    close(said[1]);
    // Any moment of the first 20 ms: enough for some checkpoints.
    const timespec moment = {0, std::uniform_int_distribution<long>(0, 20'000'000)(numbers)};
    nanosleep(&moment, nullptr);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << status;
    std::uint64_t complete = newest;
    while (read(said[0], &complete, sizeof complete) == sizeof complete) {
    }
    close(said[0]);

    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      in_the_middle += entry.path().extension().empty() ? 0 : 1;
    tidy_checkpoints(folder.path());
    LatestCheckpoint latest = open_latest(folder.path());
    EXPECT_TRUE(latest.refused.empty()) << latest.text;
    newest = 0;
    if (latest.reader) {
      newest = latest.reader->manifest().step;
      sample.expect_right(*latest.reader);
    }
    ASSERT_GE(newest, complete) << "a checkpoint is lost";
    ASSERT_LE(newest, complete + 1);
  }
  sample.write(newest + 1);
  EXPECT_EQ(checkpoint_steps(folder.path()), (std::vector<std::uint64_t>{newest + 1, newest}));
}

}  // namespace checkpoint_kill_test
}  // namespace training::test
