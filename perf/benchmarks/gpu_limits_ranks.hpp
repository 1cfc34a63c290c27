// SPDX-License-Identifier: Apache-2.0
// The ranks of gpu-limits-benchmark: two threads, which share CUDA's device 0.
#pragma once
#include <collectives/collectives.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gpu/gpu_device.hpp"
#include "process_end.hpp"

namespace perf::limits {

inline constexpr const char* kProgram = "gpu-limits-benchmark";
inline constexpr int kRanks = 2;
inline constexpr std::size_t kMostSmallBytes = 4096;

[[noreturn]] inline void fail(const std::string& what, const std::string& why) {
  end_process(fmt::format("{}: {}: {}\n", kProgram, what, why));
}

inline void must_call(coll_status_t status, const char* what) {
  if (status != COLL_SUCCESS) fail(what, coll_last_error());
}

template <class Work>
double microseconds(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// The ranks wait here for each other. They spin: to wake a thread takes longer than some calls.
class Meeting {
 public:
  void wait() {
    const int round = round_.load();
    if (arrived_.fetch_add(1) + 1 == kRanks) {
      arrived_ = 0;
      ++round_;
    } else {
      while (round_.load() == round) std::this_thread::yield();
    }
  }

 private:
  std::atomic<int> arrived_ = 0, round_ = 0;
};

/// A rank in its thread.
struct Rank {
  int number;
  const Gpu& gpu;
  coll_comm_t comm;
  Meeting& meeting;
  std::vector<double> (&times)[kRanks];

  /// Collective. `work` begins on both ranks at once; the median of what the slower rank takes.
  template <class Work>
  double median_us(int calls, int warm_up, Work work) const {
    times[number].clear();
    for (int call = -warm_up; call < calls; ++call) {
      meeting.wait();
      const double took = microseconds(work);
      if (call >= 0) times[number].push_back(took);
    }
    meeting.wait();
    std::vector<double> slower(times[0]);
    for (std::size_t i = 0; i < slower.size(); ++i) slower[i] = std::max(slower[i], times[1][i]);
    meeting.wait();
    return median(slower);
  }
};

/// Joins two ranks and runs `body` on both. Null: any transports.
inline void on_two_ranks(const Gpu& gpu, const char* transports, bool on_gpu,
                         const std::function<void(const Rank&)>& body) {
  coll_unique_id_t id;
  must_call(coll_get_unique_id(&id), "coll_get_unique_id");
  Meeting meeting;
  std::vector<double> times[kRanks];
  const auto rank = [&](int number) {
    const Gpu mine(kProgram, 0, 0);  // makes it current in this thread
    coll_config_t config = COLL_CONFIG_INIT;
    config.transports = transports;
    if (on_gpu) config.device = gpu.bus().c_str();
    coll_comm_t comm = nullptr;
    must_call(coll_comm_init_rank(&comm, kRanks, &id, number, &config), "coll_comm_init_rank");
    body({number, mine, comm, meeting, times});
    meeting.wait();
    must_call(coll_comm_destroy(comm), "coll_comm_destroy");
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

/// What coll_comm_explain says of a call of floats: "streams", …
inline std::string moved_by(coll_comm_t comm, coll_operation_t operation, std::size_t bytes) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = operation;
  call.count = bytes / sizeof(float);
  call.type = COLL_FLOAT32;
  std::string text(1 << 14, '\0');
  std::size_t length = 0;
  must_call(coll_comm_explain(comm, &call, text.data(), text.size(), &length), "explaining a call");
  const std::string_view title = "moved by: ";
  const std::size_t at = text.find(title);
  if (at == std::string::npos) return "the host";
  const std::size_t begin = at + title.size();
  return text.substr(begin, text.find_first_of(",;(\n", begin) - begin);
}

/// Memory and a stream of each rank, for calls of few bytes.
struct Small {
  explicit Small(const Gpu& on)
      : gpu(on), in(gpu, kMostSmallBytes), out(gpu, kMostSmallBytes), stream(gpu, false) {}
  const Gpu& gpu;
  GpuMemory in, out;
  GpuQueue stream;  // else ranks of a process wait for each other's default stream
  coll_stream_t ours = nullptr;

  void fill(float value) {
    const std::vector<float> values(kMostSmallBytes / sizeof(float), value);
    in.write(values.data(), kMostSmallBytes);
    // The write is on the default stream, and may still be under way; the other stream won't wait.
    gpu.require(gpu.driver().stream_synchronize(nullptr), "waiting for the default stream");
  }
  void sum(std::size_t bytes, coll_comm_t comm) const {
    must_call(coll_all_reduce(reinterpret_cast<void*>(in.address()),
                              reinterpret_cast<void*>(out.address()), bytes / sizeof(float),
                              COLL_FLOAT32, COLL_SUM, comm, ours),
              "coll_all_reduce on a stream of CUDA");
  }
  void check(std::size_t bytes, float want) const {
    std::vector<float> got(bytes / sizeof(float));
    out.read(got.data(), bytes);
    for (const float each : got)
      if (each != want) fail("a result", fmt::format("{} instead of {}", each, want));
  }
};

}  // namespace perf::limits
