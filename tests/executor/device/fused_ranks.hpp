// SPDX-License-Identifier: Apache-2.0
// The fused executors of all ranks on one device.
#pragma once
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "collectives/built.hpp"
#include "executor/device/fused/fused_executor.hpp"
#include "executor/device/fused/fused_kernels.hpp"
#include "stream_ranks.hpp"

namespace coll::testing {

inline constexpr CollectiveSpec kSumOfTwo{Collective::all_reduce, 2, 0};

/// What the kernels' twins have by that name. Only the emulated driver runs twins.
template <class T>
std::atomic<T>& of_twins(const char* name) {
  void* const found = dlsym(dlopen(std::getenv("EMUCUDA_KERNELS"), RTLD_NOW), name);
  COLL_CHECK(found != nullptr, "the twins have what tests name");
  return *static_cast<std::atomic<T>*>(found);
}

inline std::span<const std::byte> fused_image() {
  return image_or_any(fused_kernels());
}

inline FusedDevice& fused_device_of_test() {
  static FusedDevice* const device = [] {
    Result<FusedDevice*> found = FusedDevice::of(device_of_test(), fused_image());
    COLL_CHECK(found.ok(), found.status().text().c_str());
    return *found;
  }();
  return *device;
}
inline unsigned processors() {
  return device_of_test().multiprocessors();
}

/// As the library makes it: short messages as lines, and one_shot claimed.
inline FusedShape usual_shape() {
  FusedShape shape;
  shape.one_shot = [](const CollectiveSpec& spec, Rank rank) {
    return find_algorithm("one_shot")->build(spec, Layout::flat(spec.ranks), rank);
  };
  return shape;
}
/// All messages through slots, in as many shares as there are.
inline FusedShape shape_of_shares() {
  return {.least_share = 16, .most_short = 0, .one_shot = {}};
}
/// All messages through slots, each by one block.
inline FusedShape shape_of_slots() {
  return {.least_share = 1U << 30, .most_short = 0, .one_shot = {}};
}
/// Lines, and no schedule is claimed.
inline FusedShape shape_of_lines() {
  FusedShape shape;
  shape.least_share = 16;
  return shape;
}

class FusedRanks {
 public:
  FusedRanks(std::size_t ranks, const FusedShape& shape, unsigned ranks_of_device = 0) {
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto sharing = static_cast<unsigned>(ranks_of_device != 0 ? ranks_of_device : ranks);
      auto made = FusedExecutor::make(fused_device_of_test(), sharing, shape);
      EXPECT_TRUE(made.ok()) << made.status().text();
      executors_.push_back(*std::move(made));
      progress_.push_back(std::make_unique<Progress>());
    }
  }
  [[nodiscard]] std::size_t size() const { return executors_.size(); }
  FusedExecutor& executor(std::size_t rank) { return *executors_[rank]; }
  Progress& progress(std::size_t rank) { return *progress_[rank]; }

  /// Polls until the run is done; false: it has failed, or there is no end in sight.
  bool poll_until_done(std::size_t rank, const Run& run) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!run.done()) {
      if (!progress(rank).poll()) std::this_thread::yield();
      if (!run.failure.ok()) {
        ADD_FAILURE() << "rank " << rank << ": " << run.failure.text();
        return false;
      }
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "rank " << rank << ": no end in sight";
        return false;
      }
    }
    return true;
  }

 private:
  std::vector<std::unique_ptr<FusedExecutor>> executors_;
  std::vector<std::unique_ptr<Progress>> progress_;
};

/// All ranks' programs of one or several lists of schedules, over the same connections.
class FusedPrograms {
 public:
  using Settings = StreamPrograms::Settings;
  FusedPrograms(FusedRanks& ranks, const std::vector<std::vector<Schedule>>& lists,
                const Settings& settings)
      : network_(slice(lists, settings), settings.credits, settings.lends) {
    for (const auto& schedules : lists) {
      const ProgramShape shape{settings.copies, longest_message(schedules), slice(lists, settings),
                               0, Loans::none};
      auto& programs = programs_.emplace_back();
      for (std::size_t r = 0; r < schedules.size(); ++r) {
        const auto connection = [&, r](Rank peer, std::uint32_t lane) -> Connection* {
          return &network_.end(static_cast<Rank>(r), peer, lane);
        };
        auto bound = ranks.executor(r).bind(schedules[r], shape, connection, pool_);
        EXPECT_TRUE(bound.ok()) << bound.status().text();
        if (bound.ok()) programs.push_back(*std::move(bound));
      }
    }
  }
  [[nodiscard]] FusedProgram& program(std::size_t rank, std::size_t which = 0) {
    return static_cast<FusedProgram&>(*programs_[which][rank]);
  }
  LoopNetwork& network() { return network_; }
  [[nodiscard]] const ScratchPool& pool() const { return pool_; }

 private:
  static std::uint32_t slice(const std::vector<std::vector<Schedule>>& lists,
                             const Settings& settings) {
    std::uint32_t bytes = settings.slice_bytes;
    for (const auto& schedules : lists)
      bytes = std::max(bytes, longest_message(schedules) * std::uint32_t{kLongestElement});
    return bytes;
  }
  LoopNetwork network_;
  ScratchPool pool_;
  std::vector<std::vector<std::unique_ptr<Program>>> programs_;
};

}  // namespace coll::testing
