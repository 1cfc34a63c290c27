// SPDX-License-Identifier: Apache-2.0
// Asynchronous training keeps its bound, has synchronous bits without staleness, and does not wait
// for a slow worker.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>

#include "../training_ranks.hpp"
#include "asynchronous/asynchronous_worker.hpp"
#include "asynchronous/parameter_server.hpp"
#include "checkpoint/owned_pieces.hpp"
#include "model/gpt.hpp"
#include "optimizer/memory_optimizer.hpp"
#include "test_seed.hpp"

namespace training {
namespace asynchronous_test {

const GptShape kModel{16, 8, 32, 2, 2};
using NamedWeights = std::map<std::string, std::vector<float>>;

NamedWeights by_name(const Units<float>& units, const FlatLayout& layout,
                     std::span<const float> weights) {
  NamedWeights named;
  for (const Place& place : layout.buckets()[0].places) {
    const auto values = weights.subspan(place.offset, place.size);
    named[units[place.unit]->parameters()[place.parameter].name].assign(values.begin(),
                                                                        values.end());
  }
  return named;
}

AsynchronousOptions with_staleness(std::size_t staleness, std::size_t leaves) {
  AsynchronousOptions options;
  options.training.leaves = leaves;
  options.training.rate = {.most = 1e-2F, .warm_up = 2};
  options.staleness = staleness;
  return options;
}

/// What each worker does; true: one more clock. It is called after the worker has weights.
using Work = std::function<bool(std::size_t worker, AsynchronousWorker& of, std::size_t ahead)>;

/// The server's rank of a run.
void serve(const AsynchronousOptions& options, collectives::Communicator& world,
           const std::function<void(const ParameterServer&, const Units<float>&)>& look = {}) {
  Arena arena;
  const auto units = gpt_units<float>(kModel);
  ParameterServer server(options, units, 2 * kModel.positions, world, arena, [&](Owned owned) {
    return std::make_unique<MemoryOptimizer>(std::move(owned), arena);
  });
  server.serve();
  if (look) look(server, units);
}

void work(const AsynchronousOptions& options, collectives::Communicator& world, const Work& step,
          const std::function<void(AsynchronousWorker&, const Units<float>&)>& look = {}) {
  Arena arena;
  const auto units = gpt_units<float>(kModel);
  const RuleSource source(2, kModel.positions, kModel.vocabulary);
  AsynchronousWorker worker(options, units, source, world, arena);
  const auto number = static_cast<std::size_t>(world.rank() - 1);
  while (step(number, worker, worker.pull())) worker.push();
  worker.end();
  if (look) look(worker, units);
}

/// The final weights of synchronous data parallelism.
NamedWeights synchronous(std::size_t ranks, std::size_t steps, const TrainerOptions& options) {
  NamedWeights weights;
  std::mutex mutex;
  on_ranks(ranks, [&](collectives::Communicator world) {
    Mesh mesh(std::move(world), {.data = ranks}, true);
    Arena arena;
    const RuleSource source(2, kModel.positions, kModel.vocabulary);
    Trainer trainer(options, gpt_units<float>(kModel), source, mesh, arena, [&](Owned owned) {
      return std::make_unique<MemoryOptimizer>(std::move(owned), arena);
    });
    for (std::size_t i = 0; i < steps; ++i) trainer.step();
    const std::scoped_lock lock(mutex);
    for (const OwnedPiece& owned : owned_pieces(trainer.layout(), trainer.counted(),
                                                parameters_of(trainer.units()), State::weights)) {
      const std::size_t end = owned.piece.first + owned.piece.count;
      auto& values = weights[owned.piece.parameter];
      if (values.size() < end) values.resize(end);
      trainer.read(State::weights, owned.bucket, owned.first,
                   std::span(values).subspan(owned.piece.first, owned.piece.count));
    }
  });
  return weights;
}

/// As separate processes, so that one can die. First, while this process has no threads.
TEST(StaleSynchronous, AWorkersDeathEndsTheServerAndNamesIt) {
  const std::string place =
      "file://" + testing::TempDir() + "/asynchronous_" + std::to_string(getpid());
  const AsynchronousOptions options = with_staleness(1, 2);
  const auto join = [&](int rank) {
    coll_config_t config = COLL_CONFIG_INIT;
    config.deadline_s = 30;
    return value_of(collectives::Communicator::join_at(place, 3, rank, &config));
  };
  std::vector<pid_t> children;
  for (int rank = 1; rank < 3; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        auto world = join(rank);
        work(options, world, [&](std::size_t own, AsynchronousWorker& of, std::size_t) {
          if (own == 1 && of.clock() == 3) _exit(77);
          return true;
        });
        _exit(0);
      } catch (const Failure& failure) {
        _exit(failure.code());
      }
    }
    children.push_back(child);
  }
  try {
    auto world = join(0);
    serve(options, world);
    ADD_FAILURE() << "the server went on";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Failure::kPeerLost);
    EXPECT_NE(std::string(failure.what()).find("rank 2"), std::string::npos) << failure.what();
  }
  const std::vector<int> expected = {Failure::kPeerLost, 77};
  for (std::size_t i = 0; i < children.size(); ++i) {
    int status = 0;
    ASSERT_EQ(waitpid(children[i], &status, 0), children[i]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == expected[i]) << status;
  }
}

TEST(StaleSynchronous, WithoutStalenessItHasTheBitsOfSynchronousTraining) {
  constexpr std::size_t kSteps = 6;
  for (const std::size_t workers : {1U, 2U, 4U}) {
    const AsynchronousOptions options = with_staleness(0, 8);
    const NamedWeights expected = synchronous(workers, kSteps, options.training);
    on_ranks(workers + 1, [&](collectives::Communicator world) {
      if (world.rank() == 0) {
        serve(options, world, [&](const ParameterServer& server, const Units<float>& units) {
          EXPECT_EQ(by_name(units, server.layout(), server.weights()), expected) << workers;
          EXPECT_EQ(server.steps(), kSteps);
        });
        return;
      }
      work(
          options, world,
          [&](std::size_t, AsynchronousWorker& of, std::size_t ahead) {
            EXPECT_EQ(ahead, 0U);
            return of.clock() < kSteps;
          },
          [&](AsynchronousWorker& worker, const Units<float>& units) {
            EXPECT_EQ(by_name(units, worker.layout(), worker.weights()), expected) << workers;
          });
    });
  }
}

TEST(StaleSynchronous, NoWorkerComputesWithWeightsThatAreTooOld) {
  constexpr std::size_t kWorkers = 4, kClocks = 15;
  for (const std::size_t staleness : {0U, 1U, 3U}) {
    // A worker counts a gradient before it sends it: the server cannot know of more.
    std::array<std::atomic<std::size_t>, kWorkers> computed{};
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t most = 0;
    const AsynchronousOptions options = with_staleness(staleness, kWorkers);
    on_ranks(kWorkers + 1, [&](collectives::Communicator world) {
      if (world.rank() == 0) {
        serve(options, world, [&](const ParameterServer& server, const Units<float>&) {
          EXPECT_EQ(server.clocks(), std::vector<std::size_t>(kWorkers, kClocks));
          EXPECT_EQ(server.steps(), staleness == 0 ? kClocks : kWorkers * kClocks);
        });
        return;
      }
      std::mt19937_64 random(coll::test::test_seed() + static_cast<std::uint64_t>(world.rank()));
      work(options, world, [&](std::size_t own, AsynchronousWorker& of, std::size_t ahead) {
        EXPECT_LE(ahead, staleness);
        for (const auto& other : computed) EXPECT_GE(other + staleness, of.clock());
        if (of.clock() == kClocks) return false;
        std::unique_lock lock(mutex);
        most = std::max(most, ahead);
        changed.notify_all();
        // One waits until another is as far ahead as it may be.
        if (own == 0) {
          EXPECT_TRUE(
              changed.wait_for(lock, std::chrono::seconds(20), [&] { return most == staleness; }));
        }
        lock.unlock();
        if (random() % 2 == 0) std::this_thread::yield();
        computed[own] = of.clock() + 1;
        return true;
      });
    });
  }
}

TEST(StaleSynchronous, ItLearns) {
  // The seeds are those of the data: fixed.
  AsynchronousOptions options = with_staleness(2, 4);
  options.training.rate = {.most = 5e-3F, .warm_up = 10};
  std::array<std::atomic<double>, 2> last{};
  on_ranks(3, [&](collectives::Communicator world) {
    if (world.rank() == 0) return serve(options, world);
    Arena arena;
    const auto units = gpt_units<float>(kModel);
    const RuleSource source(2, kModel.positions, kModel.vocabulary);
    AsynchronousWorker worker(options, units, source, world, arena);
    for (std::size_t i = 0; i < 80; ++i) {
      worker.pull();
      const Outcome outcome = worker.push();
      last[static_cast<std::size_t>(world.rank() - 1)] =
          outcome.loss / static_cast<double>(outcome.rows);
    }
    worker.end();
  });
  for (const auto& loss : last) EXPECT_LT(loss, 1.7);
}

/// A step of one worker takes as long as three of each other. In synchronous training all do
/// equally many; here the others have done three times as many when the slow one has done its own.
TEST(StaleSynchronous, ASlowWorkerDoesNotHoldUpTheOthers) {
  constexpr std::size_t kWorkers = 3, kSlow = 8;
  const AsynchronousOptions options = with_staleness(3 * kSlow, kWorkers);
  std::mutex mutex;
  std::condition_variable changed;
  std::array<std::size_t, kWorkers> steps{};
  bool over = false;
  on_ranks(kWorkers + 1, [&](collectives::Communicator world) {
    if (world.rank() == 0) return serve(options, world);
    work(options, world, [&](std::size_t own, AsynchronousWorker& of, std::size_t) {
      std::unique_lock lock(mutex);
      if (own == 0) {
        const auto done = [&] {
          return std::all_of(steps.begin() + 1, steps.end(),
                             [&](std::size_t fast) { return fast >= 3 * of.clock(); });
        };
        if (!changed.wait_for(lock, std::chrono::seconds(20), done)) {
          ADD_FAILURE() << "the others did " << steps[1] << " and " << steps[2] << " steps";
          over = true;
        }
        over = over || of.clock() == kSlow;
      }
      if (over) return false;
      ++steps[own];
      changed.notify_all();
      return true;
    });
  });
  EXPECT_EQ(steps[0], kSlow);
  for (std::size_t fast = 1; fast < kWorkers; ++fast) EXPECT_GE(steps[fast], 2 * kSlow);
}

TEST(StaleSynchronous, WithoutStalenessAllMustDoTheSameSteps) {
  const AsynchronousOptions options = with_staleness(0, 2);
  try {
    on_ranks(3, [&](collectives::Communicator world) {
      if (world.rank() == 0) return serve(options, world);
      work(options, world, [](std::size_t own, AsynchronousWorker& of, std::size_t) {
        return of.clock() < 2 + own;
      });
    });
    ADD_FAILURE() << "it went on";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("at clock 2"), std::string::npos) << failure.what();
  }
}

TEST(StaleSynchronous, RefusesWhatItHasNot) {
  const auto refused = [](std::size_t ranks, const AsynchronousOptions& options) {
    EXPECT_THROW(
        on_ranks(ranks,
                 [&](collectives::Communicator world) { asynchronous::checked(options, world); }),
        Failure);
  };
  refused(1, with_staleness(0, 8));
  refused(4, with_staleness(0, 2));
  AsynchronousOptions options = with_staleness(0, 8);
  options.training.zero = 1;
  refused(2, options);
  options = with_staleness(0, 8);
  options.training.gradients = Format::bf16;
  refused(2, options);
  options = with_staleness(0, 8);
  options.training.drop = 0.5;
  refused(2, options);
}

}  // namespace asynchronous_test
}  // namespace training
