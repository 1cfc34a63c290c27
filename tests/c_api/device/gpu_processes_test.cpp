// SPDX-License-Identifier: Apache-2.0
// Calls that GPUs move, of ranks that are processes. Two of them share a GPU.
#include <signal.h>

#include <string>
#include <vector>

#include "communicator/rank_processes.hpp"
#include "emulation/cuda/cuda_on_test.hpp"

namespace collectives::testing {
namespace gpu_processes_test {

using namespace emulation_test;  // NOLINT: the driver's names

constexpr int kRanks = 3;
constexpr std::size_t kCount = 400'000;

coll_comm_t join_on_gpu(const std::string& place, int rank, int gpu) {
  const std::string name = std::to_string(gpu);
  coll_config_t config = COLL_CONFIG_INIT;
  config.rendezvous = place.c_str();
  config.device = name.c_str();
  config.deadline_s = config.connect_s = 30;
  coll_comm_t comm = nullptr;
  if (wrong(rank, "join", coll_comm_init(&comm, kRanks, rank, &config), COLL_SUCCESS))
    return nullptr;
  return comm;
}

/// What a process does: body(rank, comm), with its GPU current. It returns how much went wrong.
template <class Body>
auto on_gpu(const std::string& place, Body body) {
  return [place, body](int rank) {
    int devices = 1;
    if (cuda().cuInit(0) != CUDA_SUCCESS) return 1;
    cuda().cuDeviceGetCount(&devices);
    const OnDevice device(rank % devices);
    coll_comm_t comm = join_on_gpu(place, rank, rank % devices);
    return comm == nullptr ? 1 : body(rank, comm);
  };
}

int sums_wrongly(int rank, coll_comm_t comm, const TestMemory<float>& data, float from) {
  const std::vector<float> mine(kCount, from + static_cast<float>(rank));
  cuda().cuMemcpyHtoD_v2(data.at(), mine.data(), data.bytes());
  int bad = wrong(rank, "all_reduce",
                  coll_all_reduce(data.pointer(), data.pointer(), kCount, COLL_FLOAT32, COLL_SUM,
                                  comm, nullptr),
                  COLL_SUCCESS);
  const std::vector<float> sum(kCount, kRanks * from + kRanks * (kRanks - 1) / 2.F);
  if (data.read() != sum) {
    std::cerr << "rank " << rank << ": wrong sums\n";
    ++bad;
  }
  return bad;
}

TEST(GpuProcesses, SumsOverIpc) {
  const Meetings meetings;
  RankProcesses ranks(
      kRanks, on_gpu(meetings.place(0), [](int rank, coll_comm_t comm) {
        coll_call_t call = COLL_CALL_INIT;
        call.operation = COLL_ALL_REDUCE;
        call.count = kCount;
        call.type = COLL_FLOAT32;
        std::vector<char> text(1 << 16);
        size_t length = 0;
        int bad =
            wrong(rank, "explain",
                  coll_comm_explain(comm, &call, text.data(), text.size(), &length), COLL_SUCCESS);
        if (std::string(text.data()).find("moved by: streams") == std::string::npos) {
          std::cerr << "rank " << rank << ": the host moves it\n";
          ++bad;
        }
        {
          const TestMemory<float> data(kCount);
          for (int turn = 0; turn < 4; ++turn)
            bad += sums_wrongly(rank, comm, data, static_cast<float>(turn));
          bad += wrong(rank, "barrier", coll_barrier(comm, nullptr), COLL_SUCCESS);
        }
        return bad + wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS);
      }));
  ranks.expect_all_good();
}

/// A rank that dies leaves its peers' streams waiting for words that nobody writes: they are
/// released, and the call fails.
TEST(GpuProcesses, ADeadRankEndsTheCallsOfOthers) {
  const Meetings meetings;
  RankProcesses ranks(kRanks, on_gpu(meetings.place(0), [](int rank, coll_comm_t comm) {
                        const TestMemory<float> data(kCount);
                        int bad = sums_wrongly(rank, comm, data, 1);
                        if (rank == 1) raise(SIGKILL);
                        bad += wrong(rank, "all_reduce",
                                     coll_all_reduce(data.pointer(), data.pointer(), kCount,
                                                     COLL_FLOAT32, COLL_SUM, comm, nullptr),
                                     COLL_PEER_LOST, "rank 1");
                        return bad + wrong(rank, "destroy", coll_comm_destroy(comm), COLL_SUCCESS);
                      }));
  EXPECT_EQ(ranks.wait_for(0), 0);
  EXPECT_EQ(ranks.wait_for(2), 0);
}

}  // namespace gpu_processes_test
}  // namespace collectives::testing
