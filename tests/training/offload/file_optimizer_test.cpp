// SPDX-License-Identifier: Apache-2.0
// Offload to a file: the bits of the optimizer in memory, exactly the bytes of the paper, a ring of
// fixed size, and errors that say where.
#include "offload/file_optimizer.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "../failure_of.hpp"
#include "optimizer_workout.hpp"
#include "spans_of.hpp"
#include "temporary_folder.hpp"

namespace training::test {
namespace file_optimizer_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FileOffload : public ::testing::TestWithParam<WorkoutCase> {
 protected:
  Workout workout{GetParam().shard, GetParam().weights, GetParam().gradients};
  coll::test::TemporaryFolder folder;
  Arena host;
  DeviceLink link;
};
INSTANTIATE_TEST_SUITE_P(Formats, FileOffload, ::testing::ValuesIn(kWorkoutCases));

TEST_P(FileOffload, GivesTheBitsOfTheOptimizerInMemory) {
  const Trained expected = workout.expected();
  for (const std::size_t threads : {1U, 3U}) {
    for (const std::size_t chunk : {4096U, 12288U, 1048576U}) {
      FileOptimizer optimizer(
          workout.owned(), host, link,
          {.folder = folder.path(), .chunk_bytes = chunk, .adam_threads = threads});
      EXPECT_EQ(workout.run(optimizer), expected)
          << threads << " threads, chunks of " << chunk << ", " << optimizer.means();
    }
  }
}

TEST_P(FileOffload, GoesOnFromACheckpoint) {
  const FileOptions options{.folder = folder.path(), .chunk_bytes = 8192};
  FileOptimizer first(workout.owned(), host, link, options),
      second(workout.owned(), host, link, options);
  EXPECT_EQ(workout.run_with_restart(first, second), workout.expected());
}

TEST_P(FileOffload, ReadsAndWritesAllStatesOnceAStep) {
  FileOptimizer optimizer(workout.owned(), host, link,
                          {.folder = folder.path(), .chunk_bytes = 8192});
  (void)workout.run(optimizer);
  const std::size_t steps = Workout::kEnd - 1;
  const std::size_t each = workout.owned().keeps_weights() ? 12 : 8;
  std::size_t pages = 0;
  for (std::size_t bucket = 0; bucket < workout.buckets(); ++bucket)
    pages += each / 4 * ((workout.count(bucket) * 4 + kPage - 1) / kPage);
  const FileTraffic traffic = optimizer.traffic();
  EXPECT_EQ(traffic.read, steps * each * workout.elements());
  EXPECT_EQ(traffic.written, steps * each * workout.elements());
  EXPECT_EQ(traffic.read + traffic.read_padding, steps * pages * kPage);
  EXPECT_EQ(traffic.written_padding, traffic.read_padding);
}

TEST_P(FileOffload, NotesTransfersAndUpdatesWithTheBytesOfTheirStates) {
  WorkLog log;
  FileOptimizer optimizer(workout.owned(), host, link,
                          {.folder = folder.path(), .chunk_bytes = 4096, .work = &log});
  (void)workout.run(optimizer);
  const std::size_t steps = Workout::kEnd - 1;
  const std::size_t each = workout.owned().keeps_weights() ? 12 : 8;
  std::size_t chunks = 0;
  for (std::size_t bucket = 0; bucket < workout.buckets(); ++bucket)
    chunks += (workout.count(bucket) * 4 + 4095) / 4096;
  const auto spans = log.take();
  for (const WorkLog::Kind kind :
       {WorkLog::Kind::read, WorkLog::Kind::adam, WorkLog::Kind::write}) {
    const auto own = spans_of(spans, kind);
    EXPECT_EQ(own.size(), steps * chunks);
    EXPECT_EQ(bytes_of(own), steps * each * workout.elements());
  }
  EXPECT_TRUE(log.take().empty()) << "what was taken is gone";
}

TEST(FileOptimizer, ReadsTheNextChunkAndWritesTheLastDuringAdam) {
  const Workout workout({0, 1}, Format::f32, Format::f32);
  const coll::test::TemporaryFolder folder;
  Arena host;
  DeviceLink link;
  WorkLog log;
  FileOptimizer optimizer(workout.owned(), host, link,
                          {.folder = folder.path(), .chunk_bytes = 4096, .work = &log});
  const std::size_t bucket = workout.buckets() - 1, count = workout.count(bucket);
  const std::size_t chunks = (count * 4 + 4095) / 4096;
  ASSERT_GT(chunks, 4U);
  std::vector<float> gradients(count, 1), weights(count, 1);
  optimizer.update(bucket, {adam_step(1)}, gradients.data(), weights.data());
  optimizer.finish(bucket);
  const auto spans = log.take();
  const auto reads = spans_of(spans, WorkLog::Kind::read),
             adams = spans_of(spans, WorkLog::Kind::adam),
             writes = spans_of(spans, WorkLog::Kind::write);
  ASSERT_EQ(reads.size(), chunks);
  ASSERT_EQ(adams.size(), chunks);
  ASSERT_EQ(writes.size(), chunks);
  for (std::size_t i = 0; i < chunks; ++i) {
    EXPECT_LE(reads[i].end, adams[i].begin) << i;
    EXPECT_LE(adams[i].end, writes[i].begin) << i;
    if (i + 1 < chunks) {
      EXPECT_LE(reads[i + 1].begin, adams[i].begin) << i;
      EXPECT_GE(reads[i + 1].end, adams[i].end) << i;
    }
    if (i > 0) {
      EXPECT_LE(writes[i - 1].begin, adams[i].begin) << i;
      EXPECT_GE(writes[i - 1].end, adams[i].end) << i;
    }
  }
}

TEST_P(FileOffload, MovesOverTheLinkWhatTheHostDoesNotHave) {
  FileOptimizer optimizer(workout.owned(), host, link, {.folder = folder.path()});
  (void)workout.run(optimizer);
  const std::size_t elements = (Workout::kEnd - 1) * workout.elements();
  const std::size_t weights = bytes_of(GetParam().weights);
  EXPECT_EQ(link.bytes(DeviceLink::Way::to_device), elements * weights);
  EXPECT_EQ(link.bytes(DeviceLink::Way::to_host),
            elements *
                (bytes_of(GetParam().gradients) + (workout.owned().keeps_weights() ? 0 : weights)));
}

TEST_P(FileOffload, TakesThreeChunksOfHostMemoryForEachArray) {
  FileOptimizer optimizer(workout.owned(), host, link,
                          {.folder = folder.path(), .chunk_bytes = 8192});
  (void)workout.run(optimizer);
  EXPECT_EQ(host.peak(), 3 * 8192U * (workout.owned().keeps_weights() ? 3 : 2));
  EXPECT_EQ(host.peak(Use::staging), host.peak());
}

TEST(FileOptimizer, EveryMeansOfTransferGivesTheSame) {
  const Workout workout({0, 1}, Format::bf16, Format::bf16);
  const coll::test::TemporaryFolder folder;
  Arena host;
  DeviceLink link;
  const Trained expected = workout.expected();
  for (const char* means : {"io_uring", "libaio", "threads"}) {
    for (const bool direct : {true, false}) {
      const FileOptions options{
          .folder = folder.path(), .means = means, .chunk_bytes = 4096, .direct = direct};
      std::optional<FileOptimizer> optimizer;
      try {
        optimizer.emplace(workout.owned(), host, link, options);
      } catch (const Failure& refused) {
        EXPECT_THAT(refused.what(), HasSubstr(means)) << "and this machine refuses it";
        EXPECT_STRNE(means, "threads");
        continue;
      }
      EXPECT_EQ(workout.run(*optimizer), expected) << optimizer->means();
      EXPECT_THAT(optimizer->means(), HasSubstr(means));
      if (!direct) {
        EXPECT_THAT(optimizer->means(), HasSubstr("buffered"));
      }
    }
  }
}

TEST(FileOptimizer, MovesStatesToAnotherLayout) {
  const Workout workout({0, 1}, Format::bf16, Format::bf16);
  const coll::test::TemporaryFolder folder;
  Arena host;
  DeviceLink link;
  FileOptimizer moved(workout.owned(), host, link, {.folder = folder.path(), .chunk_bytes = 4096});
  expect_states_move(workout, moved);
}

TEST(FileOptimizer, LeavesNoFile) {
  const Workout workout({0, 1}, Format::f32, Format::f32);
  const coll::test::TemporaryFolder folder;
  Arena host;
  DeviceLink link;
  const FileOptimizer optimizer(workout.owned(), host, link, {.folder = folder.path()});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FileOptimizer, RefusesWhatCannotWork) {
  const Workout workout({0, 1}, Format::f32, Format::f32);
  const coll::test::TemporaryFolder folder;
  Arena host;
  DeviceLink link;
  const auto failure = [&](const FileOptions& options) {
    return failure_of([&] { const FileOptimizer made(workout.owned(), host, link, options); });
  };
  EXPECT_THAT(failure({.folder = folder.path(), .chunk_bytes = 5000}),
              HasSubstr("multiple of 4096"));
  EXPECT_THAT(failure({.folder = folder.path(), .adam_threads = 0}), HasSubstr("one thread"));
  EXPECT_THAT(failure({.folder = folder.path() + "/nowhere"}),
              AllOf(HasSubstr("/nowhere"), HasSubstr("No such file")));
  EXPECT_THAT(failure({.folder = folder.path(), .means = "smoke signals"}),
              HasSubstr("Choose io_uring, libaio or threads"));
}

TEST(FileOptimizer, SaysWhenThereIsNoRoom) {
  const Workout workout({0, 1}, Format::f32, Format::f32);
  const coll::test::TemporaryFolder folder;
  Arena host;
  DeviceLink link;
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit little{65536, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const std::string text = failure_of([&] {
    std::vector<std::byte> memory(3 * kPage);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
    const StateStore store(*workout.owned().layout, {0, 1}, false,
                           {.folder = folder.path(), .means = "", .chunk_bytes = kPage}, memory);
  });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(text, AllOf(HasSubstr(folder.path()), HasSubstr("no room"), HasSubstr("too large")));
}

/// The file that this process has open in a folder.
std::string open_file_in(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.starts_with(folder)) return entry.path().string();
  }
  ADD_FAILURE() << "no open file in " << folder;
  return "";
}

TEST(FileOptimizer, SaysWhereAReadFailed) {
  const Workout workout({0, 1}, Format::f32, Format::f32);
  const coll::test::TemporaryFolder folder;
  Arena host;
  DeviceLink link;
  FileOptimizer optimizer(workout.owned(), host, link,
                          {.folder = folder.path(), .chunk_bytes = 4096});
  ASSERT_EQ(::truncate(open_file_in(folder.path()).c_str(), 3 * 8192), 0);  // of three chunks
  const auto where = AllOf(HasSubstr(folder.path()), HasSubstr("reading"),
                           HasSubstr("at offset 24576"), HasSubstr("the file ended"));
  EXPECT_THAT(failure_of([&] { (void)workout.run(optimizer); }), where);
  EXPECT_THAT(failure_of([&] { optimizer.finish(0); }), where) << "and again";
}

}  // namespace file_optimizer_test
}  // namespace training::test
