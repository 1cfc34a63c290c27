// SPDX-License-Identifier: Apache-2.0
// Calls that GPUs move, of ranks of several processes, which share GPUs or have one each.
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "communicator/rank_processes.hpp"
#include "emulation/cuda/cuda_on_test.hpp"

namespace collectives::testing {
namespace gpu_processes_test {

using namespace emulation_test;  // NOLINT: the driver's names

constexpr int kRanks = 3;
constexpr std::size_t kCount = 400'000;

coll_comm_t join_on_gpu(const std::string& place, int ranks, int rank, int gpu,
                        const char* transports = nullptr) {
  const std::string name = std::to_string(gpu);
  coll_config_t config = COLL_CONFIG_INIT;
  config.rendezvous = place.c_str();
  config.device = name.c_str();
  config.transports = transports;
  config.deadline_s = config.connect_s = 30;
  coll_comm_t comm = nullptr;
  if (wrong(rank, "join", coll_comm_init(&comm, ranks, rank, &config), COLL_SUCCESS))
    return nullptr;
  return comm;
}

int devices() {
  int count = 1;
  if (cuda().cuInit(0) != CUDA_SUCCESS) return 0;
  cuda().cuDeviceGetCount(&count);
  return count;
}

/// What a rank does: body(rank, comm), with its GPU current. It returns how much went wrong.
template <class Body>
int rank_on_gpu(const std::string& place, int ranks, int rank, int gpu, Body body,
                const char* transports = nullptr) {
  const OnDevice device(gpu);
  coll_comm_t comm = join_on_gpu(place, ranks, rank, gpu, transports);
  return comm == nullptr ? 1 : body(rank, comm);
}

/// The same for a process with one rank: the GPUs in turn.
template <class Body>
auto on_gpu(const std::string& place, int ranks, Body body) {
  return [place, ranks, body](int rank) {
    const int count = devices();
    return count == 0 ? 1 : rank_on_gpu(place, ranks, rank, rank % count, body);
  };
}

int sums_wrongly(int ranks, int rank, coll_comm_t comm, const TestMemory<float>& data, float from) {
  const std::vector<float> mine(kCount, from + static_cast<float>(rank));
  cuda().cuMemcpyHtoD_v2(data.at(), mine.data(), data.bytes());
  int bad = wrong(rank, "all_reduce",
                  coll_all_reduce(data.pointer(), data.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                  comm, nullptr),
                  COLL_SUCCESS);
  const auto size = static_cast<float>(ranks);
  const std::vector<float> sum(kCount, size * from + size * (size - 1) / 2);
  if (data.read() != sum) {
    std::cerr << "rank " << rank << ": wrong sums\n";
    ++bad;
  }
  return bad;
}

/// What a long operation's explanation says.
std::string explained(coll_operation_t operation, int peer, int rank, coll_comm_t comm) {
  coll_call_t call = COLL_CALL_INIT;
  call.operation = operation;
  call.root = peer;
  call.count = kCount;
  call.type = COLL_FLOAT32;
  std::vector<char> text(1 << 16);
  size_t length = 0;
  wrong(rank, "explain", coll_comm_explain(comm, &call, text.data(), text.size(), &length),
        COLL_SUCCESS);
  return text.data();
}

/// `by`: who moves a long all_reduce.
int is_not_moved_by(const std::string& by, int rank, coll_comm_t comm) {
  const std::string text = explained(COLL_ALL_REDUCE, 0, rank, comm);
  if (text.find("moved by: " + by) != std::string::npos) return 0;
  std::cerr << "rank " << rank << ": not moved by " << by << ":\n" << text;
  return 1;
}

/// The body of ranks that sum some times and leave.
auto sums_moved_by(const std::string& by, int ranks) {
  return [by, ranks](int rank, coll_comm_t comm) {
    int bad = is_not_moved_by(by, rank, comm);
    {
      const TestMemory<float> data(kCount);
      for (int turn = 0; turn < 4; ++turn)
        bad += sums_wrongly(ranks, rank, comm, data, static_cast<float>(turn));
      bad += wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_SUCCESS);
    }
    return bad + wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS);
  };
}

TEST(GpuProcesses, SumsOverIpc) {
  const Meetings meetings;
  RankProcesses ranks(kRanks, on_gpu(meetings.place(0), kRanks, sums_moved_by("streams", kRanks)));
  ranks.expect_all_good();
}

/// Whatever joins the ranks' processes. Without cuda_ipc messages are staged, and the host moves
/// sends.
TEST(GpuProcesses, SumsOfProcessesThatShareNoMemory) {
  for (const std::string transports : {"cuda_ipc,tcp", "tcp"}) {
    const Meetings meetings;
    RankProcesses ranks(kRanks, [place = meetings.place(0), transports](int of) {
      const auto body = [&](int rank, coll_comm_t comm) {
        const std::string text = explained(COLL_RECV, (rank + 1) % kRanks, rank, comm);
        const bool by_gpus = text.find("of the ranks' GPUs") != std::string::npos;
        const bool wrongly = by_gpus != transports.starts_with("cuda_ipc");
        if (wrongly) std::cerr << "rank " << rank << ": moved by another:\n" << text;
        return (wrongly ? 1 : 0) + sums_moved_by("streams", kRanks)(rank, comm);
      };
      const int count = devices();
      if (count == 0) return 1;
      return rank_on_gpu(place, kRanks, of, of % count, body, transports.c_str());
    });
    ranks.expect_all_good();
  }
}

/// Kernels that wait for one another need GPUs that reach each other.
std::string mover_of_processes() {
  for (const char* const name : {"EMUCUDA_IPC", "EMUCUDA_PEERS"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && std::string(value) == "0") return "streams";
  }
  return "kernels";
}

TEST(GpuProcesses, OfAGpuEachSumByKernels) {
  for (const char* const transports : {"cuda_ipc,shm", "cuda_ipc,tcp"}) {
    const Meetings meetings;
    RankProcesses ranks(2, [place = meetings.place(0), transports](int rank) {
      const int count = devices();
      const std::string by = count < 2 ? "streams" : mover_of_processes();
      if (count == 0) return 1;
      return rank_on_gpu(place, 2, rank, rank % count, sums_moved_by(by, 2), transports);
    });
    ranks.expect_all_good();
  }
}

/// The list of a single rank keeps kernels from all.
TEST(GpuProcesses, OneWithoutCudaIpcSumsByStreamsWithTheOthers) {
  const Meetings meetings;
  RankProcesses ranks(2, [place = meetings.place(0)](int rank) {
    const int count = devices();
    if (count == 0) return 1;
    return rank_on_gpu(place, 2, rank, rank % count, sums_moved_by("streams", 2),
                       rank == 0 ? "cuda_ipc,shm" : "shm");
  });
  ranks.expect_all_good();
}

/// Registered memory is the connections' until both ends are gone.
int sums_in_registered_memory(const std::string& place, int rank, int gpu) {
  const OnDevice device(gpu);
  const TestMemory<float> data(kCount);
  const bool opens = std::getenv("EMUCUDA_IPC") == nullptr;
  int bad = wrong(rank, "register", coll_mem_register(data.pointer(), data.bytes()), COLL_SUCCESS);
  coll_comm_t comm = join_on_gpu(place, 2, rank, gpu);
  if (comm == nullptr) return bad + 1;
  for (int turn = 0; turn < 4; ++turn)
    bad += sums_wrongly(2, rank, comm, data, static_cast<float>(turn));
  if (opens)
    bad += wrong(rank, "deregister", coll_mem_deregister(data.pointer()), COLL_INVALID_USAGE,
                 "other processes have the memory open");
  bad += wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (coll_mem_deregister(data.pointer()) != COLL_SUCCESS) {
    if (std::chrono::steady_clock::now() > deadline) return bad + 1;
    std::this_thread::yield();
  }
  return bad;
}

TEST(GpuProcesses, SumInRegisteredMemory) {
  const Meetings meetings;
  RankProcesses ranks(2, [place = meetings.place(0)](int rank) {
    const int count = devices();
    return count == 0 ? 1 : sums_in_registered_memory(place, rank, rank % count);
  });
  ranks.expect_all_good();
}

/// Two processes of two ranks; those of a process share a GPU.
TEST(GpuProcesses, OfSeveralRanksSumByKernels) {
  const Meetings meetings;
  RankProcesses processes(2, [place = meetings.place(0)](int process) {
    const int count = devices();
    if (count == 0) return 1;
    // Libraries below hwloc have static state that they fill without a lock.
    coll_comm_t first_look = join_on_gpu(place + "." + std::to_string(process), 1, 0, 0);
    if (first_look == nullptr || coll_comm_destroy(first_look) != COLL_SUCCESS) return 1;
    const std::string by = count < 2 ? "streams" : mover_of_processes();
    std::atomic<int> bad{0};
    std::vector<std::thread> threads;
    for (const int rank : {process, process + 2}) {
      threads.emplace_back(
          [&, rank] { bad += rank_on_gpu(place, 4, rank, process % count, sums_moved_by(by, 4)); });
    }
    for (std::thread& thread : threads) thread.join();
    return bad.load();
  });
  processes.expect_all_good();
}

/// A rank that dies leaves its peers' streams and kernels waiting for words that nobody writes:
/// they are released, and the call fails. Two ranks have a GPU each, of three two share one.
TEST(GpuProcesses, ADeadRankEndsTheCallsOfOthers) {
  for (const int size : {2, kRanks}) {
    const Meetings meetings;
    const Signal summed;  // once for each rank that lives on
    RankProcesses ranks(size, on_gpu(meetings.place(0), size, [&](int rank, coll_comm_t comm) {
                          const TestMemory<float> data(kCount);
                          int bad = sums_wrongly(size, rank, comm, data, 1);
                          if (rank == 1) {
                            for (int other = 1; other < size; ++other) summed.wait();
                            raise(SIGKILL);
                          }
                          summed.give();
                          bad += wrong(rank, "all_reduce",
                                       coll_all_reduce(data.pointer(), data.pointer(), kCount,
                                                       COLL_FLOAT32, COLL_SUM, comm, nullptr),
                                       COLL_PEER_LOST, "rank 1");
                          return bad +
                                 wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS);
                        }));
    for (int rank = 0; rank < size; rank += 2) EXPECT_EQ(ranks.wait_for(rank), 0);
  }
}

/// Each sends to the next and receives from the one before.
int exchange(int ranks, int rank, coll_comm_t comm, const TestMemory<float>& out,
             const TestMemory<float>& in, coll_status_t expected) {
  coll_status_t ended = COLL_SUCCESS;
  const auto note = [&ended](coll_status_t status) {
    if (ended == COLL_SUCCESS) ended = status;
  };
  note(coll_group_start());
  note(coll_send(out.pointer(), kCount, COLL_FLOAT32, (rank + 1) % ranks, comm, nullptr));
  note(coll_recv(in.pointer(), kCount, COLL_FLOAT32, (rank + ranks - 1) % ranks, comm, nullptr));
  note(coll_group_end());
  return wrong(rank, "exchange", ended, expected);
}

TEST(GpuProcesses, Exchange) {
  const Meetings meetings;
  RankProcesses ranks(kRanks, on_gpu(meetings.place(0), kRanks, [](int rank, coll_comm_t comm) {
                        const auto values = [](int of, int turn) {
                          return std::vector<float>(kCount, static_cast<float>(10 * turn + of));
                        };
                        int bad = 0;
                        {
                          const TestMemory<float> out(kCount), in(kCount);
                          for (int turn = 0; turn < 4; ++turn) {
                            const std::vector<float> mine = values(rank, turn);
                            cuda().cuMemcpyHtoD_v2(out.at(), mine.data(), out.bytes());
                            bad += exchange(kRanks, rank, comm, out, in, COLL_SUCCESS);
                            if (in.read() == values((rank + kRanks - 1) % kRanks, turn)) continue;
                            std::cerr << "rank " << rank << ": wrong values\n";
                            ++bad;
                          }
                          bad += wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_SUCCESS);
                        }
                        return bad + wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS);
                      }));
  ranks.expect_all_good();
}

/// Ranks whose sends cannot be connected join all the same, and their other calls are the GPUs'.
TEST(GpuProcesses, JoinWithoutExchanges) {
  const Meetings meetings;
  RankProcesses ranks(kRanks, [place = meetings.place(0)](int rank) {
    setenv("COLL_ALGORITHM", "send=ring", 1);  // which is no algorithm of sends
    return on_gpu(place, kRanks, [](int of, coll_comm_t comm) {
      const std::string text = explained(COLL_RECV, (of + 1) % kRanks, of, comm);
      const bool by_host = text.find("recv of up to") != std::string::npos &&
                           text.find("of the ranks' GPUs") == std::string::npos;
      if (!by_host) std::cerr << "rank " << of << ": not the host's:\n" << text;
      return (by_host ? 0 : 1) + sums_moved_by("streams", kRanks)(of, comm);
    })(rank);
  });
  ranks.expect_all_good();
}

/// The first exchanges of a ring on two streams of CUDA, none in a group: what they need of the GPU
/// is there, as a driver may have who takes memory wait for all streams (EMUCUDA_ALLOCATING_WAITS).
TEST(GpuProcesses, FirstExchangesOnStreams) {
  const Meetings meetings;
  RankProcesses ranks(
      kRanks, on_gpu(meetings.place(0), kRanks, [](int rank, coll_comm_t comm) {
        int bad = 0;
        {
          const std::vector<float> mine(kCount, static_cast<float>(rank));
          const int next = (rank + 1) % kRanks, last = (rank + kRanks - 1) % kRanks;
          const TestMemory<float> out(mine), in(kCount), sums(kCount);
          std::array<CUstream, 2> streams{};
          std::array<coll_stream_t, 2> handles{};
          for (std::size_t i = 0; i < 2; ++i) {
            cuda().cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING);
            bad +=
                wrong(rank, "stream", coll_stream_from_cuda(&handles[i], streams[i]), COLL_SUCCESS);
          }
          const auto connections = [comm] {
            coll_mem_stats_t stats = COLL_MEM_STATS_INIT;
            coll_comm_mem_stats(comm, &stats);
            return stats.connections;
          };
          const std::uint64_t before = connections();
          for (const std::size_t count : {kCount, kCount / 2}) {
            bad += wrong(rank, "send",
                         coll_send(out.pointer(), count, COLL_FLOAT32, next, comm, handles[0]),
                         COLL_SUCCESS);
            bad += wrong(rank, "recv",
                         coll_recv(in.pointer(), count, COLL_FLOAT32, last, comm, handles[1]),
                         COLL_SUCCESS);
          }
          for (coll_stream_t handle : handles) {
            bad += wrong(rank, "synchronize", coll_stream_synchronize(handle), COLL_SUCCESS);
            bad += wrong(rank, "stream", coll_stream_destroy(handle), COLL_SUCCESS);
          }
          if (connections() != before) {
            std::cerr << "rank " << rank << ": its exchanges made connections\n";
            ++bad;
          }
          if (in.read() != std::vector<float>(kCount, static_cast<float>(last))) {
            std::cerr << "rank " << rank << ": wrong values\n";
            ++bad;
          }
          bad += wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_SUCCESS);
          for (CUstream stream : streams) cuda().cuStreamDestroy_v2(stream);
        }
        return bad + wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS);
      }));
  ranks.expect_all_good();
}

TEST(GpuProcesses, ADeadRankEndsAnExchange) {
  const Meetings meetings;
  const Signal exchanged;
  RankProcesses ranks(2, on_gpu(meetings.place(0), 2, [&](int rank, coll_comm_t comm) {
                        const TestMemory<float> out(kCount), in(kCount);
                        int bad = exchange(2, rank, comm, out, in, COLL_SUCCESS);
                        if (rank == 1) {
                          exchanged.wait();
                          raise(SIGKILL);
                        }
                        exchanged.give();
                        bad += exchange(2, rank, comm, out, in, COLL_PEER_LOST);
                        return bad + wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS);
                      }));
  EXPECT_EQ(ranks.wait_for(0), 0);
}

}  // namespace gpu_processes_test
}  // namespace collectives::testing
