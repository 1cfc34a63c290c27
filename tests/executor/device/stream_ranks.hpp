// SPDX-License-Identifier: Apache-2.0
// The stream executors of all ranks on one device, and memory of it.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "executor/device/stream_executor.hpp"
#include "executor/progress.hpp"
#include "loop_ports.hpp"
#include "reduce/device/device_kernels.hpp"
#include "schedule/schedule.hpp"

namespace coll::testing {

inline constexpr std::size_t kMostRanks = 8;

/// The emulated driver takes anything for an image, as it finds kernels by name. So without nvcc it
/// gets this.
inline std::span<const std::byte> image_or_any(std::span<const std::byte> image) {
  static constexpr std::byte any[16]{};
  return image.empty() ? any : image;
}
inline std::span<const std::byte> stream_image() {
  return image_or_any(reduce::device_kernels());
}

/// For a real driver: its GPU has room for the streams of all ranks, and there are kernels.
class RealDriver : public ::testing::Environment {
 public:
  // Before the driver is there; the program has one thread.
  RealDriver() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }  // NOLINT
  void SetUp() override {
    if (reduce::device_kernels().empty() && !is_emulated())
      GTEST_SKIP() << "this build has no kernels: it was made without nvcc";
  }
};
inline ::testing::Environment* const kRealDriver =
    ::testing::AddGlobalTestEnvironment(new RealDriver);

/// Of a rank, so that all ranks' streams get queues of their own: streams that share one of a real
/// GPU's 32 hold each other up, and may wait for each other for ever.
inline std::size_t most_lanes_of_rank() {
  return is_emulated() ? ~std::size_t{0} : 32 / kMostRanks - 1;
}

inline StreamDevice& device_of_test() {
  static StreamDevice* const device = [] {
    EXPECT_CUDA_OK(cuInit(0));
    Result<StreamDevice*> found = StreamDevice::of(0);
    COLL_CHECK(found.ok(), found.status().text().c_str());
    return *found;
  }();
  return *device;
}

/// What each rank of all tests has: a stream is a thread here, so they are made once.
struct StreamRank {
  StreamExecutor executor{device_of_test(), stream_image()};
  Progress progress;
};
inline StreamRank& stream_rank(std::size_t rank) {
  // Never destroyed: the driver may be gone before.
  static auto& ranks = *new std::array<std::unique_ptr<StreamRank>, kMostRanks>;
  if (!ranks[rank]) ranks[rank] = std::make_unique<StreamRank>();
  return *ranks[rank];
}

/// Memory of the device, the same for all calls of a rank: as much of it as a call needs.
class DeviceArena {
 public:
  explicit DeviceArena(std::size_t bytes) : bytes_(bytes) {
    EXPECT_CUDA_OK(cuMemAlloc_v2(&begin_, bytes));
  }
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;
  ~DeviceArena() { EXPECT_CUDA_OK(cuMemFree_v2(begin_)); }
  void write(const void* from, std::size_t bytes) {
    ASSERT_LE(bytes, bytes_);
    if (bytes == 0) return;
    EXPECT_CUDA_OK(cuMemcpyHtoD_v2(begin_, from, bytes));
    // A real driver may return before the bytes are there, and other streams do not wait for it.
    EXPECT_CUDA_OK(cuStreamSynchronize(nullptr));
  }
  void read(void* into, std::size_t bytes) const {
    if (bytes == 0) return;
    EXPECT_CUDA_OK(cuMemcpyDtoH_v2(into, begin_, bytes));
  }
  [[nodiscard]] CUdeviceptr at(std::size_t byte = 0) const { return begin_ + byte; }
  [[nodiscard]] std::byte* pointer(std::size_t byte = 0) const {
    return reinterpret_cast<std::byte*>(begin_ + byte);
  }

 private:
  CUdeviceptr begin_ = 0;
  std::size_t bytes_;
};

/// The call's buffers lie in a copy of the memory that begins at `from`.
inline void move(CallBinding& call, const void* from, std::byte* to) {
  const auto* begin = static_cast<const std::byte*>(from);
  call.input = to + (call.input - begin);
  call.output = to + (call.output - begin);
}

inline std::uint32_t longest_message(const std::vector<Schedule>& schedules) {
  std::uint32_t most = 1;
  for (const Schedule& schedule : schedules)
    for (const Lane& lane : schedule.lanes)
      for (const Step& step : lane) most = std::max(most, step.count);
  return most;
}

/// All ranks' programs of one or several lists of schedules, over the same connections.
class StreamPrograms {
 public:
  struct Settings {
    std::uint32_t copies = 1, credits = 2, slice_bytes = 256;
    bool lends = false;  ///< kernels may lend all memory
  };
  StreamPrograms(const std::vector<std::vector<Schedule>>& lists, const Settings& settings)
      : network_(slice(lists, settings), settings.credits) {
    for (const auto& schedules : lists) {
      ProgramShape shape{settings.copies, longest_message(schedules), slice(lists, settings), 0,
                         Loans::none};
      auto& programs = programs_.emplace_back();
      for (std::size_t r = 0; r < schedules.size(); ++r) {
        const auto connection = [&, r](Rank peer, std::uint32_t lane) -> Connection* {
          return &network_.end(static_cast<Rank>(r), peer, lane);
        };
        auto bound = stream_rank(r).executor.bind(schedules[r], shape, connection, pool_);
        EXPECT_TRUE(bound.ok()) << bound.status().text();
        programs.push_back(*std::move(bound));
      }
    }
  }
  [[nodiscard]] Program& program(std::size_t rank, std::size_t which = 0) {
    return *programs_[which][rank];
  }
  /// The programs go, the connections stay.
  void drop() { programs_.clear(); }
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

/// Polls these ranks in turn until their runs are done; false: one has failed, or there is no end
/// in sight.
template <class RunOf>
bool poll_ranks(std::size_t first, std::size_t behind, RunOf run_of) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (bool done = false; !done;) {
    done = true;
    bool moved = false;
    for (std::size_t r = first; r < behind; ++r) {
      const Run& run = run_of(r);
      if (run.done()) continue;
      done = false;
      moved |= stream_rank(r).progress.poll();
      if (run.failure.ok()) continue;
      ADD_FAILURE() << "rank " << r << ": " << run.failure.text();
      return false;
    }
    if (!moved) std::this_thread::yield();
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "no end in sight of ranks " << first << " to " << behind - 1;
      return false;
    }
  }
  return true;
}
template <class RunOf>
bool poll_until_all_done(std::size_t ranks, RunOf run_of) {
  return poll_ranks(0, ranks, run_of);
}
inline bool poll_until_done(std::size_t rank, const Run& run) {
  return poll_ranks(rank, rank + 1, [&run](std::size_t) -> const Run& { return run; });
}

/// What each rank does, in a thread of its own.
inline void as_threads(std::size_t ranks, const std::function<void(std::size_t rank)>& body) {
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&body, r] {
      const OnDevice device;
      body(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace coll::testing
