// SPDX-License-Identifier: Apache-2.0
// The executors of all ranks, driven by one thread.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "executor/cpu_executor.hpp"
#include "executor/progress.hpp"
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
    bool stages = false;  ///< what several ranks get
    std::uint32_t least_staged = 0;
    bool has_memory = true;  ///< for what is staged
  };

  /// Programs of `schedules`, and of `others` over the same connections.
  ExecutorRanks(const std::vector<Schedule>& schedules, const Settings& settings,
                const std::vector<Schedule>& others = {}, Loans other_loans = Loans::none)
      : network_(std::make_shared<FakeNetwork>(settings.script)) {
    const auto ranks = static_cast<Rank>(schedules.size());
    for (Rank rank = 0; rank < ranks; ++rank) {
      transports_.push_back(make_fake_transport(network_, {rank, ranks, {1, 2}, ""}));
    }
    connections_.resize(schedules.size());
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      progress_.push_back(std::make_unique<Progress>());
      runs_.push_back(std::make_unique<Run>());
    }
    const std::uint32_t chunks = std::max(message_chunks(schedules), message_chunks(others));
    slice_bytes_ = std::max(settings.slice_bytes, chunks * std::uint32_t{kLongestElement});
    open(schedules, settings);
    open(others, settings);
    for (int round = 0; round < 10; ++round) {
      for (const auto& transport : transports_) transport->poll();
    }
    add_programs(schedules, settings, settings.loans);
    if (!others.empty()) add_programs(others, settings, other_loans);
  }

  [[nodiscard]] const Program& program(std::size_t rank) const { return *programs_[0][rank]; }
  /// `which` program: 0, or 1 for the others'.
  void start(std::size_t rank, const CallBinding& call, std::size_t which = 0) {
    begin(rank, *runs_[rank], call, which);
  }
  /// The same with a run of the test's own, so that several are in flight.
  void begin(std::size_t rank, Run& run, const CallBinding& call, std::size_t which = 0) {
    run.bind(*programs_[which][rank], call);
    progress_[rank]->begin(run);
  }

  /// Rounds of randomly chosen ranks until all are done; false after `most` rounds without an end.
  /// Calls ended(rank) as soon as that rank's user may use the buffers again.
  template <class Ended>
  bool drive(std::mt19937_64& random, std::uint64_t most, Ended ended) {
    std::size_t left = runs_.size();
    std::vector<bool> done(runs_.size());
    for (std::uint64_t round = 0; round < most && left > 0; ++round) {
      const std::size_t rank = random() % runs_.size();
      if (done[rank]) continue;
      progress_[rank]->poll();
      if (runs_[rank]->done()) {
        done[rank] = true;
        ended(rank);
        --left;
      }
    }
    return left == 0;
  }

  /// The rank's program goes; no call of it may be under way.
  void drop_program(std::size_t rank) { programs_[0][rank].reset(); }
  /// And its connections.
  void drop(std::size_t rank) {
    for (auto& programs : programs_) programs[rank].reset();
    connections_[rank].clear();
  }
  /// How many programs have given their places back.
  [[nodiscard]] int freed() const { return freed_; }
  /// Lines of the memory for what is staged that were ever written.
  [[nodiscard]] std::size_t staged_lines() const {
    constexpr std::size_t kLine = 64;
    std::size_t lines = 0;
    for (const std::span<const std::byte> staged : staged_) {
      for (std::size_t at = 0; at + kLine <= staged.size(); at += kLine) {
        lines += !std::ranges::all_of(staged.subspan(at, kLine),
                                      [](std::byte byte) { return byte == kUnwritten; });
      }
    }
    return lines;
  }

  /// How many messages were lent.
  [[nodiscard]] std::uint64_t loans() const { return network_->loans(); }

  Progress& progress(std::size_t rank) { return *progress_[rank]; }
  /// Of the last `start`.
  Run& run(std::size_t rank) { return *runs_[rank]; }
  /// Polls until a connection of that run has failed; null where it ends, or nothing fails.
  const Connection* failure(std::size_t rank) {
    for (int turn = 0; turn < 1'000'000 && !run(rank).done(); ++turn) {
      progress_[rank]->poll();
      if (const Connection* failed = failed_connection(run(rank))) return failed;
    }
    return nullptr;
  }

 private:
  static constexpr std::byte kUnwritten{0xa5};

  static std::uint32_t message_chunks(const std::vector<Schedule>& schedules) {
    std::uint32_t most = 1;
    for (const Schedule& schedule : schedules) {
      for (const Lane& lane : schedule.lanes) {
        for (const Step& step : lane) most = std::max(most, step.count);
      }
    }
    return most;
  }
  void open(const std::vector<Schedule>& schedules, const Settings& settings) {
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      for (const PeerLane& pair : peers_of(schedules[r], settings.copies)) {
        std::unique_ptr<Connection>& place = connections_[r][{pair.peer, pair.lane}];
        if (place) continue;
        Result<std::unique_ptr<Connection>> opened = transports_[r]->open(
            {pair.peer, pair.lane, (slice_bytes_ + 63) / 64 * 64, settings.credits},
            transports_[static_cast<std::size_t>(pair.peer)]->descriptor());
        EXPECT_TRUE(opened.ok()) << opened.status().text();
        place = *std::move(opened);
      }
    }
  }
  void add_programs(const std::vector<Schedule>& schedules, const Settings& settings, Loans loans) {
    ProgramShape shape{settings.copies, message_chunks(schedules), slice_bytes_, 0, loans};
    shape.credits = settings.credits;
    shape.least_staged = settings.least_staged;
    std::vector<std::unique_ptr<Program>>& programs = programs_.emplace_back();
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      const auto connection = [&](Rank peer, std::uint32_t lane) {
        return connections_[r].at({peer, lane}).get();
      };
      ScratchPool::Readable memory;
      if (settings.stages) {
        memory = [this, has = settings.has_memory](std::size_t bytes) {
          return has ? make_memory(bytes) : ScratchPool::Memory();
        };
      }
      ScratchPool& pool = *pools_.emplace_back(std::make_unique<ScratchPool>(std::move(memory)));
      Result<std::unique_ptr<Program>> bound =
          executor_.bind(schedules[r], shape, connection, pool);
      EXPECT_TRUE(bound.ok()) << bound.status().text();
      programs.push_back(*std::move(bound));
    }
  }
  /// It begins 64 bytes after a multiple of 4096.
  ScratchPool::Memory make_memory(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    std::byte* room = memory_.emplace_back(new std::byte[bytes + 2 * kPage]).get();
    const std::size_t past = reinterpret_cast<std::uintptr_t>(room) % kPage;
    std::byte* begin = room + (kPage - past) + 64;
    std::fill_n(begin, bytes, kUnwritten);
    staged_.emplace_back(begin, bytes);
    return {begin, [this](std::byte*) { ++freed_; }};
  }

  std::shared_ptr<FakeNetwork> network_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::map<std::pair<Rank, std::uint32_t>, std::unique_ptr<Connection>>> connections_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;  ///< also of those who do not give it back
  std::vector<std::span<const std::byte>> staged_;    ///< what of it programs have for staging
  int freed_ = 0;
  std::uint32_t slice_bytes_ = 0;
  std::vector<std::unique_ptr<ScratchPool>> pools_;  ///< of the programs
  std::vector<std::vector<std::unique_ptr<Program>>> programs_;
  CpuExecutor executor_;
  std::vector<std::unique_ptr<Progress>> progress_;
  std::vector<std::unique_ptr<Run>> runs_;
};

/// Settings for such a network, drawn.
inline ExecutorRanks::Settings drawn_settings(const FakeScript& script, bool stages,
                                              std::mt19937_64& random) {
  ExecutorRanks::Settings settings;
  settings.script = script;
  settings.script.seed = random();
  settings.loans = stages ? Loans::none : Loans::all;
  settings.stages = stages;
  settings.copies = 1 + static_cast<std::uint32_t>(random() % 3);
  settings.credits = kLeastCredits + static_cast<std::uint32_t>(random() % 3);
  settings.slice_bytes = 64u << (random() % 4);
  return settings;
}

}  // namespace coll::testing
