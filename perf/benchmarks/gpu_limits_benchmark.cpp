// SPDX-License-Identifier: Apache-2.0
// Calls on a GPU beside what the driver takes for the parts that any implementation needs: small
// calls on streams beside an empty kernel and an exchange of words, replays of a graph, and calls
// through memory of the host beside plain copies. Two ranks, threads, share CUDA's device 0. JSON
// goes to standard output, a table to standard error. --quick: few calls, which measure nothing.
#include <collectives/collectives.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/types.hpp"
#include "benchmarks/gpu_limits_ranks.hpp"
#include "gpu/gpu_device.hpp"
#include "reduce/device/device_kernels.hpp"
#include "reduce/device/reduce_arguments.hpp"

namespace {

using nlohmann::ordered_json;
using namespace perf::limits;  // NOLINT: the other half of this program
using perf::GpuMemory;
using perf::GpuQueue;
constexpr std::size_t kSmallBytes[] = {8, 64, 512, 1024, 4096};
constexpr std::size_t kGraphBytes[] = {8, 1024};  // the host moves the shortest calls

/// How much is measured.
struct Amount {
  int calls = 400, warm_up = 40, replays = 100, rounds = 5;
  std::size_t staged_bytes = std::size_t{64} << 20;
};

class Limits {
 public:
  Limits(const perf::Gpu& gpu, const Amount& amount)
      : gpu_(gpu), driver_(gpu.driver()), amount_(amount) {
    json_["device"] = gpu.name();
    json_["cuda"] = fmt::format("{}.{}", gpu.cuda_version() / 1000, gpu.cuda_version() % 1000 / 10);
    // Libraries below the one that looks at the machine fill static state without a lock: one
    // thread first.
    coll_unique_id_t id;
    must_call(coll_get_unique_id(&id), "coll_get_unique_id");
    coll_config_t config = COLL_CONFIG_INIT;
    config.device = gpu.bus().c_str();
    coll_comm_t comm = nullptr;
    must_call(coll_comm_init_rank(&comm, 1, &id, 0, &config), "coll_comm_init_rank");
    must_call(coll_comm_destroy(comm), "coll_comm_destroy");
  }

  /// Small calls on streams, and the same in graphs.
  void streams() {
    find_empty_kernel();
    Small small[] = {Small(gpu_), Small(gpu_)};
    GpuMemory words(gpu_, kRanks * kWordApart);
    const std::vector<char> zeros(kRanks * kWordApart);
    words.write(zeros.data(), zeros.size());
    gpu_.require(driver_.stream_synchronize(nullptr), "waiting for the default stream");
    on_two_ranks(gpu_, nullptr, true, [&](const Rank& rank) {
      Small& mine = small[rank.number];
      must_call(coll_stream_from_cuda(&mine.ours, mine.stream.handle()), "coll_stream_from_cuda");
      needed(rank, mine.stream, words.address());
      mine.fill(static_cast<float>(rank.number));
      rank.meeting.wait();
      small_calls(rank, mine);
      for (const std::size_t bytes : kGraphBytes) graph(rank, mine, bytes);
      rank.meeting.wait();
      must_call(coll_stream_destroy(mine.ours), "coll_stream_destroy");
    });
  }

  /// all_gather of two blocks, so that each way carries as many bytes as in the plain copies.
  void staging() {
    const std::size_t bytes = amount_.staged_bytes, block = bytes / kRanks;
    const GpuMemory memory[] = {{gpu_, bytes}, {gpu_, bytes}};
    ordered_json staging;
    staging["bytes"] = bytes;
    const double copy = copies(memory[0].address(), memory[1].address());
    staging["copy_GBps"] = copy;
    using Way = std::tuple<const char*, const char*, bool>;
    // Without cuda_ipc messages between GPUs are staged; here by the sockets of a host. Of ranks on
    // cores the whole call is on the host, and the buffers are copied around it.
    for (const auto& [way, transports, on_gpu] :
         {Way{"sockets between GPUs", "tcp", true}, Way{"ranks on cores", nullptr, false}}) {
      std::string by;
      double rate = 0;
      on_two_ranks(gpu_, transports, on_gpu, [&](const Rank& rank) {
        const auto all = reinterpret_cast<char*>(memory[rank.number].address());
        char* const mine = all + static_cast<std::size_t>(rank.number) * block;
        const double took = rank.median_us(amount_.rounds, 1, [&] {
          must_call(
              coll_all_gather(mine, all, block / sizeof(float), COLL_FLOAT32, rank.comm, nullptr),
              "coll_all_gather of memory of the GPU");
        });
        if (rank.number != 0) return;
        by = moved_by(rank.comm, COLL_ALL_GATHER, block);
        rate = static_cast<double>(bytes) / took / 1e3;
      });
      staging["calls"].push_back(
          {{"way", way}, {"moved_by", by}, {"GBps", rate}, {"percent", 100 * rate / copy}});
    }
    json_["staging"] = staging;
  }

  [[nodiscard]] const ordered_json& json() const { return json_; }

 private:
  static constexpr std::size_t kWordApart = 128;
  static constexpr int kThreadLocal = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

  /// One that is told to scale no elements.
  void find_empty_kernel() {
    const auto image = coll::reduce::device_kernels();
    if (image.empty()) return;  // a build without nvcc
    perf::GpuModule module = nullptr;
    gpu_.require(driver_.module_load(&module, image.data()), "loading the kernels");
    const std::string name = coll::reduce::device_scale_kernel(coll::DataType::float32);
    gpu_.require(driver_.module_function(&empty_, module, name.c_str()), "kernel " + name);
  }

  void launch_empty(const GpuQueue& stream) const {
    coll::reduce::ScaleArguments arguments;
    void* parameters[] = {&arguments};
    gpu_.require(driver_.launch(empty_, 1, 1, 1, 32, 1, 1, 0, stream.handle(), parameters, nullptr),
                 "launching an empty kernel");
  }

  /// What each call needs whoever makes it: a kernel, and one word there and one back.
  void needed(const Rank& rank, const GpuQueue& stream, perf::GpuAddress words) {
    constexpr unsigned kAtLeast = 0;  // CU_STREAM_WAIT_VALUE_GEQ
    const auto my_word = words + static_cast<std::size_t>(rank.number) * kWordApart,
               other_word = words + static_cast<std::size_t>(1 - rank.number) * kWordApart;
    unsigned count = 0;
    const auto exchange = [&] {
      ++count;
      gpu_.require(driver_.stream_write_word(stream.handle(), my_word, count, 0), "writing a word");
      gpu_.require(driver_.stream_wait_word(stream.handle(), other_word, count, kAtLeast),
                   "waiting for a word");
    };
    const auto note = [&](const char* key, auto work) {
      const double took = rank.median_us(amount_.calls, amount_.warm_up, [&] {
        work();
        stream.synchronize();
      });
      if (rank.number == 0) json_[key] = took;
      if (rank.number == 0) needed_us_ = took;
    };
    note("exchange_us", exchange);
    if (empty_ == nullptr) {
      if (rank.number == 0) json_["launch_us"] = json_["launch_and_exchange_us"] = nullptr;
      return;
    }
    note("launch_us", [&] { launch_empty(stream); });
    note("launch_and_exchange_us", [&] {
      launch_empty(stream);
      exchange();
    });
  }

  void small_calls(const Rank& rank, const Small& mine) {
    for (const std::size_t bytes : kSmallBytes) {
      const double took = rank.median_us(amount_.calls, amount_.warm_up, [&] {
        mine.sum(bytes, rank.comm);
        mine.stream.synchronize();
      });
      mine.check(bytes, 1);  // 0 + 1
      rank.meeting.wait();
      if (rank.number == 0) {
        json_["small_all_reduce"].push_back(
            {{"bytes", bytes},
             {"time_us", took},
             {"of_needed", took / needed_us_},
             {"moved_by", moved_by(rank.comm, COLL_ALL_REDUCE, bytes)}});
      }
    }
  }

  void graph(const Rank& rank, Small& mine, std::size_t bytes) {
    perf::GpuGraph graph = nullptr;
    perf::GpuLaunchable launchable = nullptr;
    gpu_.require(driver_.capture_begin(mine.stream.handle(), kThreadLocal), "beginning a capture");
    mine.sum(bytes, rank.comm);
    gpu_.require(driver_.capture_end(mine.stream.handle(), &graph), "ending a capture");
    gpu_.require(driver_.graph_instantiate(&launchable, graph, 0), "making a graph");
    const auto launch = [&] {
      gpu_.require(driver_.graph_launch(launchable, mine.stream.handle()), "launching a graph");
    };
    float input = 0;
    const auto begin = [&] {  // with other inputs than before
      input += 10;
      rank.meeting.wait();
      mine.fill(input + static_cast<float>(rank.number));
      rank.meeting.wait();
    };
    const auto end = [&] {
      mine.check(bytes, 2 * input + 1);
      must_call(coll_stream_synchronize(mine.ours), "the launches of a graph");
    };
    begin();
    const double alone = rank.median_us(amount_.replays, 5, [&] {
      launch();
      mine.stream.synchronize();
    });
    end();
    begin();
    const double in_a_row = rank.median_us(3, 1, [&] {
      for (int i = 0; i < amount_.replays; ++i) launch();
      mine.stream.synchronize();
    });
    end();
    rank.meeting.wait();
    gpu_.require(driver_.launchable_destroy(launchable), "freeing a graph");
    gpu_.require(driver_.graph_destroy(graph), "freeing what was captured");
    if (rank.number == 0) {
      json_["graphs"].push_back({{"bytes", bytes},
                                 {"replays", amount_.replays},
                                 {"replay_us", alone},
                                 {"replay_in_a_row_us", in_a_row / amount_.replays},
                                 {"moved_by", moved_by(rank.comm, COLL_ALL_REDUCE, bytes)}});
    }
  }

  /// Bytes from the device and to it at once, each way, in GB/s.
  double copies(perf::GpuAddress from, perf::GpuAddress to) const {
    const std::size_t bytes = amount_.staged_bytes;
    const perf::GpuHostMemory in(gpu_, bytes), out(gpu_, bytes);
    const GpuQueue up(gpu_, false), down(gpu_, false);
    std::vector<double> times;
    for (int round = -1; round < amount_.rounds; ++round) {
      const double took = microseconds([&] {
        gpu_.require(driver_.to_host_async(in.at(), from, bytes, down.handle()),
                     "copying from the device");
        gpu_.require(driver_.to_device_async(to, out.at(), bytes, up.handle()),
                     "copying to the device");
        down.synchronize();
        up.synchronize();
      });
      if (round >= 0) times.push_back(took);
    }
    return static_cast<double>(bytes) / median(times) / 1e3;
  }

  const perf::Gpu& gpu_;
  const perf::GpuDriver& driver_;
  const Amount amount_;
  perf::GpuFunction empty_ = nullptr;
  double needed_us_ = 0;
  ordered_json json_;
};

void print_table(const ordered_json& json) {
  const auto row = [](const std::string& what, double value, const std::string& unit) {
    fmt::print(stderr, "{:<52} {:>10.2f} {}\n", what, value, unit);
  };
  if (!json["launch_us"].is_null()) {
    row("an empty kernel", json["launch_us"], "us");
    row("a kernel, and a word there and back", json["launch_and_exchange_us"], "us");
  }
  row("a word there and back", json["exchange_us"], "us");
  for (const ordered_json& each : json["small_all_reduce"]) {
    row(fmt::format("all_reduce of {} bytes on a stream", each["bytes"].get<std::size_t>()),
        each["time_us"],
        fmt::format("us, {:.2f} of what it needs", each["of_needed"].get<double>()));
  }
  for (const ordered_json& each : json["graphs"]) {
    row(fmt::format("replay of a graph with {} bytes", each["bytes"].get<std::size_t>()),
        each["replay_us"], "us");
    row("the same, one launch after another", each["replay_in_a_row_us"], "us");
  }
  row("copies from and to the device at once, each way", json["staging"]["copy_GBps"], "GB/s");
  for (const ordered_json& each : json["staging"]["calls"]) {
    row("all_gather by " + each["way"].get<std::string>(), each["GBps"],
        fmt::format("GB/s, {:.0f} %", each["percent"].get<double>()));
  }
}

}  // namespace

int main(int count, char** words) {
  Amount amount;
  if (count == 2 && std::string_view(words[1]) == "--quick")
    amount = {20, 2, 10, 1, std::size_t{4} << 20};
  else if (count != 1)
    fail("not understood", "the only option is --quick");
  const perf::Gpu gpu(kProgram, 0, 0);
  Limits limits(gpu, amount);
  limits.streams();
  limits.staging();
  print_table(limits.json());
  fmt::print("{}\n", limits.json().dump(2));
}
