// SPDX-License-Identifier: Apache-2.0
// tests/: behaviour that can fail. This file: the executors of all ranks, driven by one thread.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "executor/cpu_executor.hpp"
#include "schedule/schedule.hpp"
#include "transports/fake/fake_transport.hpp"

namespace coll::testing {

/// All ranks' programs over one scripted network, so that a test decides who moves next: any order
/// of the ranks' rounds must give the same result.
class ExecutorRanks {
 public:
  struct Settings {
    FakeScript script;
    std::uint32_t copies = 1;
    std::uint32_t credits = 2;
    std::uint32_t slice_bytes = 256;
    Loans loans = Loans::all;
    bool stages = false;  ///< whatever several ranks get
  };

  ExecutorRanks(const std::vector<Schedule>& schedules, const Settings& settings)
      : network_(std::make_shared<FakeNetwork>(settings.script)) {
    const auto ranks = static_cast<Rank>(schedules.size());
    for (Rank rank = 0; rank < ranks; ++rank) {
      transports_.push_back(make_fake_transport(network_, {rank, ranks, {1, 2}, ""}));
    }
    std::uint32_t message_chunks = 1;
    for (const Schedule& schedule : schedules) {
      for (const Lane& lane : schedule.lanes) {
        for (const Step& step : lane) message_chunks = std::max(message_chunks, step.count);
      }
    }
    const std::uint32_t slice = std::max(settings.slice_bytes, message_chunks * 8);
    connections_.resize(schedules.size());
    calls_.resize(schedules.size());
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      for (const PeerLane& pair : peers_of(schedules[r], settings.copies)) {
        Result<std::unique_ptr<Connection>> opened =
            transports_[r]->open({pair.peer, pair.lane, (slice + 63) / 64 * 64, settings.credits},
                                 transports_[static_cast<std::size_t>(pair.peer)]->descriptor());
        EXPECT_TRUE(opened.ok()) << opened.status().text();
        connections_[r][{pair.peer, pair.lane}] = *std::move(opened);
      }
    }
    for (int round = 0; round < 10; ++round) {
      for (const auto& transport : transports_) transport->poll();
    }
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      const auto connection = [&](Rank peer, std::uint32_t lane) {
        return connections_[r].at({peer, lane}).get();
      };
      const auto memory = [this](std::size_t bytes) {
        places_.push_back(std::make_unique<std::byte[]>(bytes));
        return SharedMemory(places_.back().get(), [this](std::byte*) { ++freed_; });
      };
      ProgramShape shape{settings.copies, message_chunks, slice, 0, settings.loans};
      shape.credits = settings.credits;
      shape.least_staged = 1;
      Result<std::unique_ptr<Program>> bound =
          coll::bind(schedules[r], shape, connection,
                     settings.stages ? SharedMemorySource(memory) : SharedMemorySource());
      EXPECT_TRUE(bound.ok()) << bound.status().text();
      programs_.push_back(*std::move(bound));
      executors_.push_back(std::make_unique<CpuExecutor>(WaitPolicy{}, &stop_));
    }
  }

  void start(std::size_t rank, const CallBinding& call) {
    calls_[rank] = call;
    executors_[rank]->start(*programs_[rank], calls_[rank]);
  }

  /// Rounds of randomly chosen ranks until all are done; false after `most` rounds without an end.
  /// Calls ended(rank) as soon as that rank's user may use the buffers again.
  template <class Ended>
  bool drive(std::mt19937_64& random, std::uint64_t most, Ended ended) {
    std::size_t left = executors_.size();
    std::vector<bool> done(executors_.size());
    for (std::uint64_t round = 0; round < most && left > 0; ++round) {
      const std::size_t rank = random() % executors_.size();
      if (done[rank]) continue;
      executors_[rank]->poll();
      if (executors_[rank]->done()) {
        done[rank] = true;
        ended(rank);
        --left;
      }
    }
    return left == 0;
  }

  /// The rank's program goes; no call of it may be under way.
  void drop_program(std::size_t rank) { programs_[rank].reset(); }
  /// How many programs have given their places back.
  [[nodiscard]] int freed() const { return freed_; }

  CpuExecutor& executor(std::size_t rank) { return *executors_[rank]; }
  std::atomic<bool>& stop() { return stop_; }

 private:
  std::shared_ptr<FakeNetwork> network_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::map<std::pair<Rank, std::uint32_t>, std::unique_ptr<Connection>>> connections_;
  std::vector<std::unique_ptr<std::byte[]>> places_;  ///< also of those who do not give them back
  int freed_ = 0;
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<std::unique_ptr<CpuExecutor>> executors_;
  std::vector<CallBinding> calls_;
  std::atomic<bool> stop_{false};
};

}  // namespace coll::testing
